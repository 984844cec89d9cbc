"""What the database itself wants of a claim: tried through raw SQL as the application's own role."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import Error, IntegrityError, connection, transaction

from accounts.models import Party, User
from billing.models import Account, Deposit, DepositClaim, Transfer
from billing.services import account_open, claim_confirm, claim_propose, transfer_post
from core import clock
from core.ids import uuid7
from tests.billing.chain.world import USDC
from tests.billing.test_claims import WEEK, second, with_evidence
from tests.factories.withdrawals import unlabelled

pytestmark = pytest.mark.django_db

__all__ = ["second"]


def sql(statement: str, parameters: list[object] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def moved(receiver: Party, amount: int) -> Transfer:
    suspense, to = account_open(kind=Account.Kind.SUSPENSE), account_open(kind="customer", owner=receiver)
    now, legs = clock.now(), [(suspense.pk, -amount), (to.pk, amount)]
    return transfer_post(source=f"x:{uuid7()}", kind="deposit_claimed", legs=legs, effective_at=now, now=now)


CREDIT = "UPDATE billing_deposit SET state = 'credited', party_id = %s, claim_transfer_id = %s"


def test_money_leaves_suspense_only_whole_and_to_who_has_proven_it(customer: Party, provider: Party) -> None:
    unlabelled(7 * USDC)
    for match, amount, receiver in (
        ("nobody has proven", 7 * USDC, customer),
        ("6999999 reach its claimant", 7 * USDC - 1, customer),
        ("0 reach its claimant", 7 * USDC, provider),
    ):
        with pytest.raises(Error, match=match), transaction.atomic():
            sql(CREDIT, [customer.pk, moved(receiver, amount).pk])
    with pytest.raises(Error, match="0 leave suspense"), transaction.atomic():
        sql("UPDATE billing_deposit SET state = 'credited', party_id = %s", [customer.pk])
    assert Deposit.objects.get().state == "suspense"


def test_a_credited_deposit_stays_credited(customer: Party, olga: User, second: User) -> None:
    deposit, now = unlabelled(7 * USDC), clock.now()
    claim = with_evidence(customer, deposit.signature, now)
    claim_propose(claim=claim, reason="It looks right.", actor=olga, now=now)
    claim_confirm(claim=claim, actor=second, now=now + WEEK)
    for statement in (
        "UPDATE billing_deposit SET state = 'suspense', party_id = NULL, claim_transfer_id = NULL",
        "UPDATE billing_deposit SET reason = 'x'",
    ):
        with pytest.raises(Error, match="stays so"), transaction.atomic():
            sql(statement)
    with pytest.raises(Error, match="written once"), transaction.atomic():
        sql("UPDATE billing_depositclaim SET state = 'open'")


CLAIM = "UPDATE billing_depositclaim SET state = 'credited', deposit_id = %s, closed_at = %s"


def test_evidence_needs_two_people_and_a_week(customer: Party, olga: User, second: User) -> None:
    deposit, now = unlabelled(7 * USDC), clock.now()
    with_evidence(customer, deposit.signature, now)
    late, early = now + WEEK, now + WEEK - timedelta(seconds=1)
    proposed = ", proposed_by_id = %s, proposed_at = %s, confirmed_by_id = %s"
    for statement, values in (
        (CLAIM, [deposit.pk, late]),
        (CLAIM + proposed, [deposit.pk, late, olga.pk, now, None]),
        (CLAIM + proposed, [deposit.pk, late, olga.pk, now, olga.pk]),
        (CLAIM + proposed, [deposit.pk, early, olga.pk, now, second.pk]),
    ):
        with pytest.raises(IntegrityError, match="billing_claim_credited_by_proof"), transaction.atomic():
            sql(statement, list(values))
    with transaction.atomic():
        sql(CLAIM + proposed, [deposit.pk, late, olga.pk, now, second.pk])  # the control
        transaction.set_rollback(True)


def test_a_claim_says_what_it_said(customer: Party) -> None:
    with_evidence(customer, unlabelled(7 * USDC).signature)
    for statement in (
        "UPDATE billing_depositclaim SET evidence = 'other'",
        "UPDATE billing_depositclaim SET created_at = created_at - interval '8 days'",
        "DELETE FROM billing_depositclaim",
    ):
        with pytest.raises(Error, match="written once"), transaction.atomic():
            sql(statement)
    with pytest.raises(IntegrityError, match="billing_claim_has_its_proof"), transaction.atomic():
        DepositClaim.objects.create(party=customer, kind="wallet", signature="s", evidence="not for a wallet")
