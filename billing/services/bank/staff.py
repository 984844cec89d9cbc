"""Who may do what with bank payouts: staff, with the right, and never to their own money."""

from __future__ import annotations

from collections.abc import Iterable

from accounts.models import Party, User
from core.errors import Denied, Invalid


def staff_check(actor: User, permission: str, *, payees: Iterable[Party] = ()) -> None:
    """Raises Denied: not staff, without ``billing.<permission>``, or a member of one of the ``payees``."""
    if not actor.is_staff or not actor.has_perm(f"billing.{permission}"):
        raise Denied("Only staff with the right to do this can do it.")
    if any(party.members.filter(user=actor).exists() for party in payees):
        raise Denied("Nobody decides about money that goes to themselves.")


def reason_check(reason: str) -> str:
    """The reason on one line. Raises Invalid (field reason) when there is none."""
    found = " ".join(reason.split())
    if not found:
        raise Invalid.field("reason", found=reason, allowed="a sentence for those who read it later")
    return found[:200]
