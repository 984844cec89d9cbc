from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from billing.models import Deposit, Transfer

_EXPECTED = """
SELECT -coalesce(sum(p.amount) FILTER (WHERE a.kind = 'deposits_clearing'), 0),
    -coalesce(sum(p.amount) FILTER (WHERE a.kind = 'treasury'), 0),
    (SELECT coalesce(sum(amount_micro), 0) FROM billing_payout
     WHERE rail = 'usdc' AND status IN ('submitted', 'unknown'))
FROM billing_posting p JOIN billing_account a ON a.id = p.account_id
WHERE a.owner_id IS NULL AND a.asset = 'USDC' AND a.kind IN ('deposits_clearing', 'treasury')
"""
FUNDING = "funding"
"""The first word of a funding's source: ``funding:<signature>:<account>``."""


@dataclass(frozen=True, slots=True)
class TreasuryBooks:
    """What the books say lies on chain, in micro-USDC. ``leaving`` may have left the hot wallet and is not settled yet."""

    vault_micro: int
    hot_micro: int
    leaving_micro: int


def treasury_books() -> TreasuryBooks:
    """One statement, so one moment."""
    with connection.cursor() as cursor:
        cursor.execute(_EXPECTED)
        vault, hot, leaving = cursor.fetchone()
    return TreasuryBooks(int(vault), int(hot), int(leaving))


def deposits_known(account: str, since_slot: int) -> set[str]:
    """Signatures of the deposits on ``account`` from a slot on."""
    return set(Deposit.objects.filter(account=account, slot__gte=since_slot).values_list("signature", flat=True))


def fundings_known() -> set[str]:
    """Signatures of every funding of the hot wallet: there are a few a week."""
    sources = Transfer.objects.filter(kind=Transfer.Kind.FUNDING).values_list("source", flat=True)
    return {source.split(":")[1] for source in sources}
