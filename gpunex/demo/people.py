"""The cast: Ada provides, Ravi rents, Olga operates, Eve looks around. Random passwords, in a file only its owner reads."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from allauth.account.models import EmailAddress
from django.contrib.auth.models import Permission
from django.db import transaction

from accounts.models import User
from accounts.services import user_register

DOMAIN = "demo.gpunex.example"
OUR_APPS = ("accounts", "billing", "providers", "benchmarks", "reliability", "marketplace", "core", "gpunex")
CAST: dict[str, tuple[str, str]] = {
    # name: (full name, what they are here for)
    "ada": ("Ada Okafor", "provider (approved)"),
    "ravi": ("Ravi Menon", "customer"),
    "olga": ("Olga Petrova", "operator: /admin/"),
    "eve": ("Eve", "a new user"),
}
CUSTOMERS: dict[str, tuple[str, str]] = {
    "zoe": ("Zoë Keller", "customer"),
    "kenji": ("Kenji Sato", "customer"),
}
"""Who rents besides Ravi; tour.customers acts for them. Their log-ins lie in customers.json, beside the cast's."""
OPERATOR = {"operator": ("Operator", "operator: /admin/")}
"""Who a plain installation starts with."""
STAFF = ("olga", "operator")


def person(email: str, *, name: str, handle: str, password: str | None, is_staff: bool = False) -> User:
    """The person with this verified address; made at first use."""
    known = User.objects.filter(email=email).first()
    if known is not None:
        return known
    with transaction.atomic():
        user = user_register(email=email, password=password, name=name, handle=handle, is_staff=is_staff)
        EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
        if is_staff:
            user.user_permissions.set(Permission.objects.filter(content_type__app_label__in=OUR_APPS))
    return user


def cast_gather(file: Path, *, cast: Mapping[str, tuple[str, str]] = CAST, domain: str = DOMAIN) -> dict[str, User]:
    """The cast's users. Passwords are written to ``file`` (0600) before the first user exists, and never changed."""
    logins = _logins(file, cast, domain)
    return {
        name: person(
            logins[name]["email"],
            name=full_name,
            handle="ada-compute" if name == "ada" else name,
            password=logins[name]["password"],
            is_staff=name in STAFF,
        )
        for name, (full_name, _role) in cast.items()
    }


def _logins(file: Path, cast: Mapping[str, tuple[str, str]], domain: str) -> dict[str, dict[str, str]]:
    if file.exists():
        known: dict[str, dict[str, str]] = json.loads(file.read_text())
        return known
    made = {
        name: {"email": f"{name}@{domain}", "password": secrets.token_urlsafe(12), "role": role}
        for name, (_full_name, role) in cast.items()
    }
    unfinished = file.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        json.dump(made, handle, indent=2)
    unfinished.rename(file)
    return made
