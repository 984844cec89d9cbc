from __future__ import annotations

from accounts.models import Party, User


def party_of(user: User) -> Party:
    """The party a user acts for: their own, until teams exist."""
    return Party.objects.get(members__user=user, kind=Party.Kind.PERSON)


def party_contacts(party: Party) -> list[User]:
    """Who is written to about a party's affairs: its owners."""
    return list(User.objects.filter(memberships__party=party, memberships__role="owner", is_active=True).order_by("id"))
