"""Many claims on one deposit at once: it is credited once, whoever claims it and however."""

from __future__ import annotations

from solders.keypair import Keypair

from accounts.models import Party, User
from billing.models import DepositClaim
from billing.selectors import balance_of
from billing.selectors.balances import house_balance
from billing.services import claim_confirm, claim_propose
from core import clock
from core.errors import Conflict
from tests.billing.chain.world import USDC, World
from tests.billing.test_claims import WEEK, claimed, second, with_evidence
from tests.billing.test_races import at_once
from tests.factories.withdrawals import unlabelled

__all__ = ["second"]


def test_ten_good_claims_at_once_credit_it_once(committed_db: str, chain: World, customer: Party) -> None:
    """Ten texts, all signed by the sending wallet: one of them gets the money, nine are told that nothing waits."""
    wallet = Keypair()
    deposit = unlabelled(7 * USDC, sender=wallet)

    def claim(_: int) -> bool:
        try:
            claimed(customer, deposit.signature, wallet)
        except Conflict:
            return False
        return True

    assert sorted(at_once(claim)) == [False] * 9 + [True]
    assert (balance_of(customer).balance_micro, house_balance("suspense")) == (7 * USDC, 0)


def test_two_rivals_confirmed_at_once_are_one_credit(
    committed_db: str, customer: Party, provider: Party, olga: User, second: User
) -> None:
    deposit, now = unlabelled(7 * USDC), clock.now()
    claims = [with_evidence(party, deposit.signature, now) for party in (customer, provider)]
    for claim in claims:
        claim_propose(claim=claim, reason="It looks right.", actor=olga, now=now)

    def confirm(number: int) -> bool:
        try:
            claim_confirm(claim=claims[number], actor=second, now=now + WEEK)
        except Conflict:
            return False
        return True

    assert sorted(at_once(confirm, 2)) == [False, True]
    assert balance_of(customer).balance_micro + balance_of(provider).balance_micro == 7 * USDC
    assert sorted(DepositClaim.objects.values_list("state", flat=True)) == ["credited", "declined"]
