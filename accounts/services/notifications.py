"""Telling people: one row per person in the inbox, one plain-text mail each, in the person's language and zone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import F
from django.template import Context
from django.template.loader import get_template
from django.utils import timezone, translation

from accounts.models import Notification, Party, User
from accounts.sealing import seal, unseal
from accounts.selectors import party_contacts
from core import clock, jobs

log = structlog.get_logger(__name__)

MAIL_RETRY_SECONDS = (300, 300, 900, 3600, 4 * 3600)
"""Waits between attempts; the last one repeats. The first is also the lease: longer than any SMTP time-out."""
MAIL_ATTEMPTS_MAX = 12
"""Then we stop: the message stays in the inbox, and a mail server that refused for two days will not take it now."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SUBJECT = re.compile(r"Subject:\s*(?P<subject>[^\n]+)\n(?P<body>.*)", re.DOTALL)


def notification_send(
    *,
    kind: str,
    context: Mapping[str, Any],
    now: datetime,
    party: Party | None = None,
    user: User | None = None,
    url: str = "",
    secrets: Mapping[str, str] | None = None,
) -> list[Notification]:
    """Tell ``user``, or every owner of ``party``: stored at once, mailed after commit by the job ``accounts.mail_send``.

    The text is ``templates/mail/<kind>.txt``: first line ``Subject: …``, then the body (plain text, nothing is escaped).
    It sees ``context``, ``user``, ``origin`` and ``link`` (``url``, a path of ours, as a whole address). ``secrets`` are
    values the template may show too: the inbox gets dots instead, the mail the value, and then it is forgotten.
    """
    if (party is None) == (user is None):
        raise ValueError("notification_send tells either a party or a user")
    if url and (not url.startswith("/") or url.startswith("//")):
        raise ValueError(f"url is a path of ours such as /jobs/, found {url!r}")
    readers = [user] if user is not None else party_contacts(party)  # type: ignore[arg-type]
    return [_tell(reader, kind, context, url, secrets or {}, now) for reader in readers]


def _tell(
    user: User, kind: str, context: Mapping[str, Any], url: str, secrets: Mapping[str, str], now: datetime
) -> Notification:
    # In the text a secret is a placeholder of its own; what it stands for is kept apart, encrypted, until the mail is sent.
    places = {name: f"[[{name}]]" for name in secrets}
    subject, body = _render(user, kind, {**context, **places}, url)
    with transaction.atomic():
        row = Notification.objects.create(
            user=user,
            kind=kind,
            subject=subject,
            body=body,
            url=url,
            created_at=now,
            mail_due_at=now,
            mail_secrets=seal(secrets) if secrets else None,
        )
        jobs.enqueue("accounts.mail_send", notification_id=str(row.pk))
    return row


def _render(user: User, kind: str, context: Mapping[str, Any], url: str) -> tuple[str, str]:
    known = {
        **context,
        "user": user,
        "origin": settings.ORIGIN,
        "link": settings.ORIGIN + url if url else settings.ORIGIN + "/inbox/",
    }
    template = get_template(f"mail/{kind}.txt").template  # type: ignore[attr-defined]
    with translation.override(user.language), timezone.override(ZoneInfo(user.time_zone)):
        text = template.render(Context(known, autoescape=False))
    found = _SUBJECT.fullmatch(text.lstrip().replace("\r\n", "\n"))
    if found is None:
        raise ValueError(f"templates/mail/{kind}.txt must begin with a line 'Subject: …'")
    return header_text(found["subject"])[:200], _CONTROL.sub("", found["body"]).strip() + "\n"


def header_text(text: str) -> str:
    """One line for a mail header: control characters (CR and LF first of all) become spaces."""
    return " ".join("".join(" " if unicodedata.category(c) in {"Cc", "Zl", "Zp"} else c for c in text).split())


def mail_send(*, notification_id: UUID, now: datetime) -> bool:
    """Send one notification's mail if it is due. True when it was sent; a twin of this job finds nothing to do.

    The claim is the UPDATE that moves ``mail_due_at`` on; a crash after it is mended by the sweeper when that time comes.
    """
    row = Notification.objects.filter(pk=notification_id, mail_due_at__lte=now).select_related("user").first()
    if row is None:
        return False
    wait = MAIL_RETRY_SECONDS[min(row.mail_attempts, len(MAIL_RETRY_SECONDS) - 1)]
    claimed = Notification.objects.filter(pk=row.pk, mail_due_at=row.mail_due_at).update(
        mail_due_at=now + timedelta(seconds=wait), mail_attempts=F("mail_attempts") + 1
    )
    if claimed != 1:
        return False
    try:
        _message(row).send()
    except OSError as error:  # SMTP's own errors are OSErrors too
        log.warning("mail_not_sent", notification=str(row.pk), attempts=row.mail_attempts + 1, error=repr(error))
        if row.mail_attempts + 1 >= MAIL_ATTEMPTS_MAX:
            Notification.objects.filter(pk=row.pk).update(mail_due_at=None, mail_secrets=None)
        return False
    Notification.objects.filter(pk=row.pk).update(mail_due_at=None, mailed_at=now, mail_secrets=None)
    return True


def _message(row: Notification) -> EmailMessage:
    body = row.body
    for name, value in (unseal(row.mail_secrets) if row.mail_secrets else {}).items():
        body = body.replace(f"[[{name}]]", value)
    with translation.override(row.user.language):
        footer = get_template("mail/_footer.txt").template.render(  # type: ignore[attr-defined]
            Context({"origin": settings.ORIGIN}, autoescape=False)
        )
    # The same Message-ID whenever it is sent again, so that a mail program shows a repeated message once.
    headers = {"Message-ID": f"<{row.pk}@gpunex>", "Auto-Submitted": "auto-generated"}
    return EmailMessage(subject=row.subject, body=f"{body}\n{footer}", to=[row.user.email], headers=headers)


def mails_sweep(*, now: datetime, limit: int = 100) -> int:
    """Send what is due and was not sent: a job that got lost, a mail server that was down. Returns how many went out."""
    due = Notification.objects.filter(mail_due_at__lte=now).order_by("mail_due_at").values_list("pk", flat=True)[:limit]
    return sum(mail_send(notification_id=pk, now=clock.now()) for pk in due)


def notification_read(*, user: User, notification_id: UUID, now: datetime) -> None:
    """Mark one of the user's own messages read; one that is not theirs, or is read already, is left alone."""
    Notification.objects.filter(pk=notification_id, user=user, read_at__isnull=True).update(read_at=now)


def notifications_read_all(*, user: User, now: datetime) -> int:
    """Mark all the user's messages read; returns how many were not."""
    return Notification.objects.filter(user=user, read_at__isnull=True).update(read_at=now)
