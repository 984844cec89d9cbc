from __future__ import annotations

import secrets

from django.db import transaction

from accounts.models import Party, PartyMember, User

HANDLE_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no letters that look like another


def handle_new() -> str:
    """A neutral public handle such as ``gx-7kq2m9wd``; it says nothing about the person."""
    return "gx-" + "".join(secrets.choice(HANDLE_ALPHABET) for _ in range(8))


def user_register(
    *,
    email: str,
    password: str | None,
    name: str = "",
    language: str = "en",
    is_staff: bool = False,
    handle: str | None = None,
) -> User:
    """Make a user with a party of their own. The e-mail's verification is the log-in's business (allauth).

    Raises django.db.IntegrityError when the address is taken: forms check before, without telling.
    """
    with transaction.atomic():
        user = User.objects.create_user(email, password, name=name, language=language, is_staff=is_staff)
        party_open(user=user, handle=handle)
    return user


def party_open(*, user: User, handle: str | None = None) -> Party:
    """The person's own party; made once."""
    with transaction.atomic():
        party = Party.objects.create(handle=handle or handle_new())
        PartyMember.objects.create(party=party, user=user)
    return party
