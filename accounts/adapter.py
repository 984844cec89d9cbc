from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.core import context as allauth_context
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest

from accounts.models import AccountChange, User
from accounts.selectors import inbox_of
from accounts.services.changes import account_change_record
from accounts.services.mails import header_text, mail_queue
from accounts.services.notifications import notification_send
from accounts.services.users import party_open
from core import clock

CHANGES = {
    "account/email/email_changed": AccountChange.What.EMAIL,
    "account/email/password_reset": AccountChange.What.PASSWORD_RESET,
    "mfa/email/totp_activated": AccountChange.What.SECOND_FACTOR,
    "mfa/email/totp_deactivated": AccountChange.What.SECOND_FACTOR,
    "mfa/email/recovery_codes_generated": AccountChange.What.SECOND_FACTOR,
}
"""allauth's notices that somebody else may hold the log-in from now on."""


class AccountAdapter(DefaultAccountAdapter):
    """Where allauth meets our accounts: a sign-up makes a user and their party; mails know our origin, not the request's."""

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:
        with transaction.atomic():
            super().save_user(request, user, form, commit=False)
            user.email = user.email.lower()
            user.language = getattr(request, "LANGUAGE_CODE", "en")
            user.save()
            party_open(user=user)
        return user

    def confirm_email(self, request: HttpRequest, email_address: EmailAddress) -> bool:
        """The first address a person proves opens their inbox with a welcome."""
        confirmed: bool = super().confirm_email(request, email_address)
        user = email_address.user
        if confirmed and not inbox_of(user).filter(kind="welcome").exists():
            notification_send(kind="welcome", user=user, context={}, url="/roles/", now=clock.now())
        return confirmed

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Every link starts with the configured origin, whatever Host header asked for the mail; a job sends it."""
        ours = {name: _at_origin(value) if name.endswith("_url") else value for name, value in context.items()}
        site = SimpleNamespace(name="GPUnex", domain=urlsplit(settings.ORIGIN).netloc)
        asked = allauth_context.request
        message = self.render_mail(
            template_prefix, email, {"request": asked, "email": email, **ours, "current_site": site}
        )
        mail_queue(to=email, subject=message.subject, body=str(message.body), now=clock.now())

    def send_notification_mail(
        self, template_prefix: str, user: User, context: dict[str, Any] | None = None, email: str | None = None
    ) -> None:
        """A notice about a change is sent by allauth, and the change is remembered."""
        super().send_notification_mail(template_prefix, user, context, email)
        if what := CHANGES.get(template_prefix):
            former = (email or "") if what == AccountChange.What.EMAIL else ""
            account_change_record(user=user, what=what, former_email=former, now=clock.now())

    def format_email_subject(self, subject: str) -> str:
        return header_text(f"{subject} · GPUnex")


def _at_origin(url: str) -> str:
    parts = urlsplit(url)
    return settings.ORIGIN + parts.path + (f"?{parts.query}" if parts.query else "")
