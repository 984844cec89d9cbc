"""Telling people: one row per person in the inbox, one plain-text mail each, in the person's language and zone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction
from django.template import Context
from django.template.loader import get_template
from django.utils import timezone, translation

from accounts.models import Notification, Party, User
from accounts.selectors import party_contacts
from accounts.services.mails import header_text, mail_queue

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
    also_to: Sequence[str] = (),
) -> list[Notification]:
    """Tell ``user``, or every owner of ``party``: stored at once, mailed after commit (accounts.services.mails).

    The text is ``templates/mail/<kind>.txt``: first line ``Subject: …``, then the body (plain text, nothing is escaped).
    It sees ``context``, ``user``, ``origin`` and ``link`` (``url``, a path of ours, as a whole address). ``secrets`` are
    values the template may show too: the inbox gets dots instead, the mail the value. ``also_to``: further addresses that get
    the first reader's mail, such as one that was given up a week ago.
    """
    if (party is None) == (user is None):
        raise ValueError("notification_send tells either a party or a user")
    if url and (not url.startswith("/") or url.startswith("//")):
        raise ValueError(f"url is a path of ours such as /jobs/, found {url!r}")
    readers = [user] if user is not None else party_contacts(party)  # type: ignore[arg-type]
    told = [_tell(reader, kind, context, url, secrets or {}, now) for reader in readers]
    for address in also_to if readers else ():
        subject, _, mailed = _texts(readers[0], kind, context, url, secrets or {})
        mail_queue(to=address, subject=subject, body=f"{mailed}\n{_footer(readers[0])}", now=now)
    return told


def _tell(
    user: User, kind: str, context: Mapping[str, Any], url: str, secrets: Mapping[str, str], now: datetime
) -> Notification:
    subject, body, mailed = _texts(user, kind, context, url, secrets)
    with transaction.atomic():
        mail = mail_queue(to=user.email, subject=subject, body=f"{mailed}\n{_footer(user)}", now=now)
        return Notification.objects.create(
            user=user, kind=kind, subject=subject, body=body, url=url, created_at=now, mail=mail
        )


def _texts(
    user: User, kind: str, context: Mapping[str, Any], url: str, secrets: Mapping[str, str]
) -> tuple[str, str, str]:
    """Subject, the inbox's body, the mail's body. In the inbox a secret is a placeholder; the mail has what it stands for."""
    places = {name: f"[[{name}]]" for name in secrets}
    subject, body = _render(user, kind, {**context, **places}, url)
    mailed = body
    for name, value in secrets.items():
        mailed = mailed.replace(places[name], value)
    return subject, body, mailed


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


def _footer(user: User) -> str:
    with translation.override(user.language):
        footer: str = get_template("mail/_footer.txt").template.render(  # type: ignore[attr-defined]
            Context({"origin": settings.ORIGIN}, autoescape=False)
        )
    return footer


def notification_read(*, user: User, notification_id: UUID, now: datetime) -> None:
    """Mark one of the user's own messages read; one that is not theirs, or is read already, is left alone."""
    Notification.objects.filter(pk=notification_id, user=user, read_at__isnull=True).update(read_at=now)


def notifications_read_all(*, user: User, now: datetime) -> int:
    """Mark all the user's messages read; returns how many were not."""
    return Notification.objects.filter(user=user, read_at__isnull=True).update(read_at=now)
