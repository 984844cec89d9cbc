from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.db import transaction
from django.http import HttpRequest

from accounts.models import User
from accounts.services.users import party_open


class AccountAdapter(DefaultAccountAdapter):
    """Where allauth meets our accounts: a sign-up makes a user and their party in one transaction."""

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:
        with transaction.atomic():
            super().save_user(request, user, form, commit=False)
            user.email = user.email.lower()
            user.language = getattr(request, "LANGUAGE_CODE", "en")
            user.save()
            party_open(user=user)
        return user
