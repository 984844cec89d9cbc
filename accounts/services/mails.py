"""Mail leaves through one door: stored with what caused it, sent by a job, tried again by the sweeper.

No request waits for a mail server, and how long a request takes does not tell whether there was somebody to write to.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.core.mail import EmailMessage
from django.db.models import F

from accounts.models import Mail
from accounts.sealing import seal, unseal
from core import clock, jobs

log = structlog.get_logger(__name__)

RETRY_SECONDS = (300, 300, 900, 3600, 4 * 3600)
"""Waits between attempts; the last one repeats. The first is also the lease: longer than any SMTP time-out."""
ATTEMPTS_MAX = 12
"""Then we stop: a mail server that refused for two days will not take it now, and the inbox has the message."""
KEPT = timedelta(days=30)
"""How long it is remembered that a mail went out, for the people who answer "I never got it"."""


def header_text(text: str) -> str:
    """One line for a mail header: control characters (CR and LF first of all) become spaces."""
    return " ".join("".join(" " if unicodedata.category(c) in {"Cc", "Zl", "Zp"} else c for c in text).split())


def mail_queue(*, to: str, subject: str, body: str, now: datetime) -> Mail:
    """Store a mail, within the caller's transaction if there is one; the job ``accounts.mail_send`` sends it after commit."""
    row = Mail.objects.create(to=to, sealed=seal({"subject": subject, "body": body}), due_at=now, created_at=now)
    jobs.enqueue("accounts.mail_send", mail_id=str(row.pk))
    return row


def mail_send(*, mail_id: UUID, now: datetime) -> bool:
    """Send a mail if it is due. True when it was sent; a twin of this job finds nothing to do.

    The claim is the UPDATE that moves ``due_at`` on; a crash after it is mended by the sweeper when that time comes.
    """
    row = Mail.objects.filter(pk=mail_id, due_at__lte=now).first()
    if row is None:
        return False
    wait = RETRY_SECONDS[min(row.attempts, len(RETRY_SECONDS) - 1)]
    claimed = Mail.objects.filter(pk=row.pk, due_at=row.due_at).update(
        due_at=now + timedelta(seconds=wait), attempts=F("attempts") + 1
    )
    if claimed != 1:
        return False
    try:
        _message(row).send()
    except OSError as error:  # SMTP's own errors are OSErrors too
        log.warning("mail_not_sent", mail=str(row.pk), attempts=row.attempts + 1, error=repr(error))
        if row.attempts + 1 >= ATTEMPTS_MAX:
            Mail.objects.filter(pk=row.pk).update(due_at=None, sealed=None)
        return False
    Mail.objects.filter(pk=row.pk).update(due_at=None, sent_at=now, sealed=None)
    return True


def _message(row: Mail) -> EmailMessage:
    # The same Message-ID whenever it is sent again, so that a mail program shows a repeated message once.
    headers = {"Message-ID": f"<{row.pk}@gpunex>", "Auto-Submitted": "auto-generated"}
    words = unseal(row.sealed or b"")  # a mail that is due is sealed
    return EmailMessage(subject=words["subject"], body=words["body"], to=[row.to], headers=headers)


def mails_sweep(*, now: datetime, limit: int = 100) -> int:
    """Send what is due and was not sent: a job that got lost, a mail server that was down. Returns how many went out."""
    due = Mail.objects.filter(due_at__lte=now).order_by("due_at").values_list("pk", flat=True)[:limit]
    return sum(mail_send(mail_id=pk, now=clock.now()) for pk in due)


def mails_forget(*, now: datetime) -> int:
    """Delete what went out, or was given up, long ago; returns how many that were."""
    deleted, _ = Mail.objects.filter(created_at__lt=now - KEPT, due_at__isnull=True).delete()
    return deleted
