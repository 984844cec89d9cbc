from __future__ import annotations

from uuid import UUID

from celery import shared_task

from accounts import services
from core import clock


@shared_task(name="accounts.mail_send")
def mail_send(mail_id: str) -> bool:
    return services.mail_send(mail_id=UUID(mail_id), now=clock.now())


@shared_task(name="accounts.mails_sweep")
def mails_sweep() -> int:
    return services.mails_sweep(now=clock.now())


@shared_task(name="accounts.mails_forget")
def mails_forget() -> int:
    return services.mails_forget(now=clock.now())
