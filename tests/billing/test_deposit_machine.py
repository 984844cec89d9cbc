"""A hypothesis machine over the deposits' reader: whatever two nodes leave out, repeat, reorder or get wrong, in any order,
what is credited is what both of them say is final, once, to whom it names; and once they are well, all of it is.
"""

from __future__ import annotations

from functools import partial

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from accounts.models import Party
from accounts.selectors import party_of
from accounts.services import user_register
from billing.chain.deposits import OVERLAP_SLOTS, credits_read
from billing.models import Deposit
from billing.selectors import balance_of
from billing.selectors.balances import house_balance
from billing.services import deposit_intent_open, deposits, deposits_read, reading
from billing.services.network import Network
from core import clock
from core.ids import uuid7
from core.invariants import check_all
from tests.billing.chain.model_node import MINT, OWNER, VAULT, Chain, Node, Transaction

AMOUNTS = st.integers(1, 1_000)
PAGES = st.integers(1, 4)
FAULTS = st.sampled_from(["lies", "unlisted", "hollow"])
FETCHED_PER_READ = 2
"""So that a read of more than a few transactions has to go on in the next page."""
READS_TO_CATCH_UP = 60


class Deposits(RuleBasedStateMachine):
    """Runs inside a transaction that is rolled back. ``primary`` and ``second`` see one chain through faults of their own."""

    current: Network

    @initialize(primary_page=PAGES, second_page=PAGES)
    def open(self, primary_page: int, second_page: int) -> None:
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.chain = Chain()
        self.primary = Node(self.chain, "primary", page=primary_page)
        self.second = Node(self.chain, "second", page=second_page)
        names = uuid7().hex
        self.parties: list[Party] = [
            party_of(user_register(email=f"{name}{names}@example.com", password=None)) for name in "ab"
        ]
        self.references = [
            deposit_intent_open(party=party, amount_micro=None, now=clock.now()).reference for party in self.parties
        ]
        self.suspense_before = house_balance("suspense")
        Deposits.current = Network(
            primary=self.primary,  # type: ignore[arg-type]
            second=self.second,  # type: ignore[arg-type]
            genesis_hash="g",
            mint=MINT,
            vault_owner=OWNER,
            vault_account=VAULT,
            hot_wallet="h",
            hot_account="ha",
        )

    def teardown(self) -> None:
        if hasattr(self, "atomic"):
            self._heal_and_catch_up()
            transaction.set_rollback(True)
            self.atomic.__exit__(None, None, None)

    # What happens on the chain

    @rule(amount=AMOUNTS, whose=st.sampled_from([(), (0,), (1,), (0, 1)]), failed=st.sampled_from([False, False, True]))
    def paid(self, amount: int, whose: tuple[int, ...], failed: bool) -> None:
        self.chain.add([amount], [self.references[number] for number in whose], failed=failed)

    @rule(first=AMOUNTS, other=AMOUNTS, whose=st.integers(0, 1))
    def paid_by_two_transfers_in_one_transaction(self, first: int, other: int, whose: int) -> None:
        self.chain.add([first, other], [self.references[whose]])

    @rule(amount=AMOUNTS)
    def taken_out(self, amount: int) -> None:
        self.chain.add([-amount], [])

    @rule(amount=AMOUNTS)
    def there_and_back_in_one_transaction(self, amount: int) -> None:
        self.chain.add([amount, -amount], [self.references[0]])

    @rule(slots=st.integers(1, 40))
    def time_passes(self, slots: int) -> None:
        self.chain.slot += slots
        # A healthy node indexes a block within the overlap; nobody can find what one never lists.
        for each in self.chain.transactions:
            if self.chain.slot - each.slot > OVERLAP_SLOTS - 50:
                for node in (self.primary, self.second):
                    node.unlisted.discard(each.signature)

    # What goes wrong with the nodes

    @rule(amount=AMOUNTS, whose=st.integers(0, 1), node=st.integers(0, 1), how=FAULTS)
    def paid_and_one_is_wrong_about_it(self, amount: int, whose: int, node: int, how: str) -> None:
        made = self.chain.add([amount], [self.references[whose]])
        self._be_wrong(made, node, how)

    @precondition(lambda self: self.chain.transactions)
    @rule(which=st.integers(0, 5), node=st.integers(0, 1), how=FAULTS)
    def one_is_wrong_about_a_transaction(self, which: int, node: int, how: str) -> None:
        """About a recent one."""
        found = self.chain.transactions[-1 - which % min(6, len(self.chain.transactions))]
        if self.chain.slot - found.slot <= OVERLAP_SLOTS - 50:
            self._be_wrong(found, node, how)

    def _be_wrong(self, about: Transaction, node: int, how: str) -> None:
        """``lies``: another amount than the other node says; both of them lying alike is what two endpoints are against."""
        wrong, right = (self.primary, self.second) if node else (self.second, self.primary)
        if how == "lies":
            wrong.lies[about.signature] = about.gained + 7
            right.lies.pop(about.signature, None)
        else:
            getattr(wrong, how).add(about.signature)

    @rule(node=st.integers(0, 1), slots=st.integers(0, 60))
    def one_lags(self, node: int, slots: int) -> None:
        (self.primary, self.second)[node].behind = slots

    @rule(node=st.integers(0, 1), doubles=st.booleans(), shuffles=st.integers(0, 3), swaps=st.booleans())
    def one_lists_in_another_way(self, node: int, doubles: bool, shuffles: int, swaps: bool) -> None:
        place = (self.primary, self.second)[node]
        place.doubles, place.shuffles, place.swaps = doubles, shuffles, swaps

    @rule(page=PAGES)
    def pages_end_elsewhere(self, page: int) -> None:
        self.primary.page = page

    @rule()
    def both_are_well_again(self) -> None:
        self._heal_and_catch_up()

    # What we do

    @rule(times=st.integers(1, 3))
    def read(self, times: int) -> None:
        for _ in range(times):
            known = set(Deposit.objects.values_list("signature", flat=True))
            deposits_read(now=clock.now())
            for row in Deposit.objects.exclude(signature__in=known):
                for node in (self.primary, self.second):
                    found = node.transaction(row.signature, commitment="finalized")
                    assert found is not None and found.token_delta(VAULT, MINT) == row.amount_micro, node.name

    def _heal_and_catch_up(self) -> None:
        self.primary.heal()
        self.second.heal()
        for _ in range(READS_TO_CATCH_UP):
            deposits_read(now=clock.now())
            if Deposit.objects.count() == len(self._due()):
                break
        assert {row.signature for row in Deposit.objects.all()} == set(self._due())

    def _due(self) -> dict[str, int]:
        return {each.signature: each.gained for each in self.chain.transactions if each.gained > 0}

    @invariant()
    def nothing_is_credited_that_is_not_there(self) -> None:
        if not hasattr(self, "atomic"):
            return
        connection.check_constraints()
        truth = {each.signature: each for each in self.chain.transactions}
        owed, suspended = [0, 0], 0
        for row in Deposit.objects.all():
            found = truth[row.signature]
            assert row.amount_micro == found.gained > 0
            named = [number for number, reference in enumerate(self.references) if reference in found.references]
            if len(named) == 1:
                assert row.party_id == self.parties[named[0]].pk
                owed[named[0]] += found.gained
            else:
                assert row.state == "suspense"
                suspended += found.gained
        assert [balance_of(party).balance_micro for party in self.parties] == owed
        assert house_balance("suspense") - self.suspense_before == suspended
        assert check_all() == []


@pytest.mark.django_db
def test_deposits_are_what_both_nodes_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deposits, "network", lambda: Deposits.current)
    monkeypatch.setattr(reading, "credits_read", partial(credits_read, limit=FETCHED_PER_READ))
    quick = settings(
        max_examples=25,
        stateful_step_count=18,
        deadline=None,
        phases=[Phase.generate],  # making a failure smaller takes longer than to read its eighteen steps
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    run_state_machine_as_test(Deposits, settings=quick)
