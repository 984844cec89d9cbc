from __future__ import annotations

import secrets
from zoneinfo import available_timezones

from django.conf import settings
from django.db import transaction

from accounts.models import Party, PartyMember, User
from core.errors import Invalid

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


def user_profile_set(*, user: User, name: str, language: str, time_zone: str) -> None:
    """Change what a person tells about themselves. Raises Invalid naming the field (language, time_zone)."""
    languages = [code for code, _ in settings.LANGUAGES]
    if language not in languages:
        raise Invalid.field("language", found=language, allowed=", ".join(languages))
    if time_zone not in available_timezones():
        raise Invalid.field("time_zone", found=time_zone, allowed="an IANA time zone such as Asia/Shanghai")
    User.objects.filter(pk=user.pk).update(name=name.strip(), language=language, time_zone=time_zone)


def user_language_set(*, user: User, language: str) -> None:
    """The language we write to the person in. Raises Invalid for one we do not speak."""
    user_profile_set(user=user, name=user.name, language=language, time_zone=user.time_zone)


def party_legal_name_set(*, party: Party, name: str) -> None:
    """Who a party is before a bank, as a reviewer has approved it. Destinations that exist keep theirs."""
    Party.objects.filter(pk=party.pk).update(legal_name=" ".join(name.split())[:140])
