"""A hypothesis machine: whatever is done to the ledger, in any order, repeated or refused, a dict of balances agrees."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from accounts.models import Party
from accounts.selectors import party_of
from accounts.services import user_register
from billing.models import Account, Transfer
from billing.selectors import balance_of, payable_of, pending_of
from billing.selectors.balances import house_balance
from billing.services import (
    EarningInput,
    account_open,
    earnings_mature,
    hold_extend,
    hold_place,
    hold_release,
    service_credit_post,
    transfer_post,
    usage_post,
)
from core import clock
from core.errors import Conflict, InsufficientFunds
from core.ids import uuid7
from core.invariants import check_all
from core.money import split_micro
from tests.factories.billing import funded

AMOUNTS = st.integers(1, 1_000)


class Ledger(RuleBasedStateMachine):
    """Runs inside a transaction that is rolled back; every step's deferred laws fire at once."""

    holds, usages = Bundle("holds"), Bundle("usages")

    @initialize()
    def open(self) -> None:
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        names = uuid7().hex
        self.customer: Party = party_of(user_register(email=f"c{names}@example.com", password=None))
        self.provider: Party = party_of(user_register(email=f"p{names}@example.com", password=None))
        self.now = clock.now()
        self.balance = self.pending = self.payable = self.fee = 0
        self.fee_before = house_balance("platform_fee")
        self.held: dict[str, int] = {}
        self.lines: dict[str, tuple[int, int, bool]] = {}  # usage → provider's part, fee, matured
        self.again: list[dict[str, Any]] = []

    def teardown(self) -> None:
        if hasattr(self, "atomic"):
            transaction.set_rollback(True)
            self.atomic.__exit__(None, None, None)

    @rule(amount=AMOUNTS)
    def deposit(self, amount: int) -> None:
        funded(self.customer, amount)
        self.balance += amount

    @rule(target=holds, amount=AMOUNTS)
    def hold(self, amount: int) -> Any:
        source = f"hold:{uuid7()}"
        try:
            hold_place(party=self.customer, amount_micro=amount, source=source, now=self.now)
        except InsufficientFunds:
            assert self.balance - sum(self.held.values()) < amount
            return multiple()
        assert self.balance - sum(self.held.values()) >= amount
        self.held[source] = amount
        return source

    @rule(source=holds, amount=AMOUNTS)
    def extend(self, source: str, amount: int) -> None:
        more = max(0, amount - self.held[source])
        try:
            hold_extend(source=source, amount_micro=amount, now=self.now)
        except InsufficientFunds:
            assert self.balance - sum(self.held.values()) < more
        else:
            self.held[source] += more

    @rule(source=consumes(holds))
    def release(self, source: str) -> None:
        for _ in range(2):
            hold_release(source=source, now=self.now)
        del self.held[source]

    @rule(target=usages, amount=AMOUNTS, bps=st.integers(0, 10_000), hold=st.one_of(st.none(), holds))
    def usage(self, amount: int, bps: int, hold: str | None) -> str:
        request = {
            "source": f"usage:{uuid7()}",
            "customer": self.customer,
            "provider": self.provider,
            "amount_micro": amount,
            "fee_bps": bps,
            "lines": [EarningInput(uuid7(), "rtx-4090", uuid7()) for _ in range(3)],
            "effective_at": self.now,
            "now": self.now,
            "hold_source": hold,
        }
        usage_post(**request)
        provider, fee = split_micro(amount, [10_000 - bps, bps])
        self.balance, self.pending, self.fee = self.balance - amount, self.pending + provider, self.fee + fee
        if hold is not None:
            self.held[hold] -= min(amount, self.held[hold])
        self.lines[request["source"]] = (provider, fee, False)
        self.again.append(request)
        return str(request["source"])

    @rule(which=st.integers(0, 50))
    def repeat(self, which: int) -> None:
        if self.again:
            usage_post(**self.again[which % len(self.again)])

    @rule(usage=consumes(usages), share=st.integers(1, 100))
    def credit(self, usage: str, share: int) -> None:
        provider, fee, matured = self.lines[usage]
        if not provider:
            return  # nothing of the provider's to give back: such a charge is refused, see test_usage
        amount = max(1, (provider + fee) * share // 100)
        back, back_fee = split_micro(amount, [provider, fee])
        service_credit_post(source=f"credit:{usage}", of_sources=[usage], amount_micro=amount, now=self.now)
        self.balance, self.fee = self.balance + amount, self.fee - back_fee
        if matured:
            self.payable -= back
        else:
            self.pending -= back
        with pytest.raises(Conflict):
            service_credit_post(source=f"other:{usage}", of_sources=[usage], amount_micro=1, now=self.now)

    @rule(days=st.integers(1, 10))
    def time_passes(self, days: int) -> None:
        self.now += timedelta(days=days)
        earnings_mature(now=self.now)
        ready = days >= 7
        if ready:
            self.payable, self.pending = self.payable + self.pending, 0
            self.lines = {source: (provider, fee, True) for source, (provider, fee, _) in self.lines.items()}
        else:
            self.payable, self.pending = payable_of(self.provider), pending_of(self.provider)
            self._relearn()

    def _relearn(self) -> None:
        """Which charges have matured, as the books say after a short while: their sum is checked by the invariants."""
        for source, (provider, fee, _) in self.lines.items():
            matured = Transfer.objects.filter(source=source, earning_lines__matured_at__isnull=False).exists()
            self.lines[source] = (provider, fee, matured)

    @rule(amount=AMOUNTS)
    def payout_requested_and_cancelled(self, amount: int) -> None:
        payable = account_open(kind=Account.Kind.PROVIDER_PAYABLE, owner=self.provider)
        in_flight = account_open(kind=Account.Kind.PAYOUT_IN_FLIGHT, owner=self.provider)
        legs = [(payable.pk, -amount), (in_flight.pk, amount)]
        request = {"kind": "payout_reserved", "effective_at": self.now, "now": self.now}
        try:
            transfer_post(source=f"r:{uuid7()}", legs=legs, floored=frozenset({payable.pk}), **request)
        except InsufficientFunds:
            assert self.payable < amount
            return
        assert self.payable >= amount
        transfer_post(source=f"c:{uuid7()}", legs=[(key, -moved) for key, moved in legs], **request)

    @invariant()
    def the_books_agree(self) -> None:
        if not hasattr(self, "atomic"):
            return
        connection.check_constraints()
        found = balance_of(self.customer)
        assert (found.balance_micro, found.held_micro) == (self.balance, sum(self.held.values()))
        assert (pending_of(self.provider), payable_of(self.provider)) == (self.pending, self.payable)
        assert house_balance("platform_fee") - self.fee_before == self.fee
        assert check_all() == []


@pytest.mark.django_db
def test_the_ledger_agrees_with_a_dict_of_balances() -> None:
    quick = settings(
        max_examples=12,
        stateful_step_count=15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    run_state_machine_as_test(Ledger, settings=quick)
