"""A correction by hand takes two people, moves once, stays within its bounds, and is told to whom it concerns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import Error, connection, transaction

from accounts.models import Party, User
from accounts.selectors import party_of
from billing.models import Account, Adjustment, AuditEntry, Transfer
from billing.selectors import balance_of, customer_history, integrity, money_waiting, payable_of
from billing.selectors.balances import house_balance
from billing.services import (
    account_open,
    adjustment_confirm,
    adjustment_propose,
    adjustment_refuse,
    hold_place,
    monthly_statement_issue,
    payout_statement_issue,
    transfer_post,
)
from core.errors import Conflict, Denied, DomainError, InsufficientFunds, Invalid
from core.models import StatusEvent
from tests.factories.billing import USDC, funded
from tests.factories.cast import person
from tests.factories.documents import destination_for, reserved, rules, settled

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def proposed(party: Party, actor: User, amount_micro: int = 12_500_000, **changes: Any) -> Adjustment:
    wish = {"kind": "customer", "reason": "A deposit that we read twice", "evidence": "ticket 4711", "now": NOON}
    return adjustment_propose(party=party, amount_micro=amount_micro, actor=actor, **{**wish, **changes})


def sql(statement: str, parameters: list[object]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def test_two_people_give_once_and_everybody_concerned_can_read_it(customer: Party, olga: User, otto: User) -> None:
    wish = proposed(customer, olga)
    assert balance_of(customer).balance_micro == 0 and money_waiting().adjustments == 1
    posted = adjustment_confirm(adjustment=wish, actor=otto, now=NOON + HOUR)
    assert (posted.state, posted.decided_by, posted.decided_at) == ("posted", otto, NOON + HOUR)
    again = adjustment_confirm(adjustment=wish, actor=otto, now=NOON + 2 * HOUR)  # a second click
    assert again.transfer == posted.transfer and Transfer.objects.count() == 1
    assert (balance_of(customer).balance_micro, house_balance("adjustments")) == (12_500_000, -12_500_000)
    (row,), _ = customer_history(customer)
    assert (row.kind, row.amount_micro, row.words, row.note) == (
        "adjustment",
        12_500_000,
        "Adjustment",
        "A deposit that we read twice",
    )
    assert money_waiting().adjustments == 0


def test_one_person_moves_nothing(customer: Party, olga: User) -> None:
    wish = proposed(customer, olga)
    with pytest.raises(Denied, match="somebody else"):
        adjustment_confirm(adjustment=wish, actor=olga, now=NOON)
    wish.refresh_from_db()
    assert wish.state == "proposed" and not Transfer.objects.exists()


def test_the_second_confirmer_is_told_that_somebody_was_first(customer: Party, olga: User, otto: User) -> None:
    wish = proposed(customer, olga)
    adjustment_confirm(adjustment=wish, actor=otto, now=NOON)
    third = person("Third", is_staff=True, permissions=True)
    with pytest.raises(Conflict, match="it is posted"):
        adjustment_confirm(adjustment=wish, actor=third, now=NOON)
    with pytest.raises(Conflict, match="it is posted"):
        adjustment_refuse(adjustment=wish, reason="too late", actor=third, now=NOON)
    assert balance_of(customer).balance_micro == 12_500_000


def test_a_refused_one_stays_with_its_reason(customer: Party, olga: User, otto: User) -> None:
    wish = proposed(customer, olga)
    with pytest.raises(Invalid) as refusal:
        adjustment_refuse(adjustment=wish, reason="  ", actor=otto, now=NOON)
    assert list(refusal.value.fields) == ["reason"]
    refused = adjustment_refuse(adjustment=wish, reason="The ticket is about another account", actor=otto, now=NOON)
    assert (refused.state, refused.refusal) == ("refused", "The ticket is about another account")
    with pytest.raises(Conflict, match="it is refused"):
        adjustment_confirm(adjustment=wish, actor=otto, now=NOON)
    assert not Transfer.objects.exists()
    own = adjustment_refuse(adjustment=proposed(customer, olga), reason="my mistake", actor=olga, now=NOON)
    assert own.decided_by == olga


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"amount_micro": 0}, "amount"),
        ({"amount_micro": 1_000 * USDC + 1}, "amount"),
        ({"amount_micro": -1_000 * USDC - 1}, "amount"),
        ({"kind": "provider_pending"}, "kind"),
        ({"kind": "treasury"}, "kind"),
        ({"reason": " \n "}, "reason"),
        ({"evidence": "\t"}, "evidence"),
    ],
)
def test_what_is_no_correction_is_refused_by_field(
    customer: Party, olga: User, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        proposed(customer, olga, **change)
    assert list(refusal.value.fields) == [field]
    assert not Adjustment.objects.exists() and not AuditEntry.objects.exists()


def test_a_day_has_a_limit_either_way(customer: Party, olga: User, otto: User) -> None:
    """Five of 1,000 are 5,000, whether they give or take; the sixth waits until the first is a day old."""
    for number in range(5):
        amount = -1_000 * USDC if number == 4 else 1_000 * USDC
        adjustment_confirm(adjustment=proposed(customer, olga, amount), actor=otto, now=NOON + number * HOUR)
    sixth = proposed(customer, olga, 1)
    with pytest.raises(Conflict, match=r"5,000\.000001 USDC would be adjusted within 24 hours; allowed: 5,000\.00"):
        adjustment_confirm(adjustment=sixth, actor=otto, now=NOON + 23 * HOUR)
    adjustment_confirm(adjustment=sixth, actor=otto, now=NOON + 24 * HOUR)
    assert balance_of(customer).balance_micro == 3_000 * USDC + 1


def test_taking_from_a_customer_leaves_what_running_jobs_have_set_aside(
    customer: Party, olga: User, otto: User
) -> None:
    funded(customer, 10 * USDC)
    hold_place(party=customer, source="hold:job", amount_micro=4 * USDC, now=NOON)
    wish = proposed(customer, olga, -6 * USDC - 1)
    with pytest.raises(InsufficientFunds):
        adjustment_confirm(adjustment=wish, actor=otto, now=NOON)
    wish.refresh_from_db()
    assert wish.state == "proposed" and balance_of(customer).available_micro == 6 * USDC
    adjustment_confirm(adjustment=proposed(customer, olga, -6 * USDC), actor=otto, now=NOON)
    assert balance_of(customer).available_micro == 0


def test_taking_from_a_provider_may_make_a_debt_that_earnings_pay_back(provider: Party, olga: User, otto: User) -> None:
    wish = proposed(provider, olga, -3 * USDC, kind="provider_payable")
    adjustment_confirm(adjustment=wish, actor=otto, now=NOON)
    assert payable_of(provider) == -3 * USDC


def test_nobody_touches_their_own_balance(olga: User, otto: User) -> None:
    with pytest.raises(Denied, match="themselves"):
        proposed(party_of(olga), olga)
    wish = proposed(party_of(otto), olga)
    with pytest.raises(Denied, match="themselves"):
        adjustment_confirm(adjustment=wish, actor=otto, now=NOON)
    assert not Transfer.objects.exists()


@pytest.mark.parametrize("who", ["ravi", "eve"])
def test_others_propose_confirm_and_refuse_nothing(
    request: pytest.FixtureRequest, who: str, customer: Party, olga: User
) -> None:
    somebody: User = request.getfixturevalue(who)
    wish = proposed(customer, olga)
    verbs: list[Any] = [
        lambda: proposed(customer, somebody),
        lambda: adjustment_confirm(adjustment=wish, actor=somebody, now=NOON),
        lambda: adjustment_refuse(adjustment=wish, reason="no", actor=somebody, now=NOON),
    ]
    for verb in verbs:
        with pytest.raises(DomainError):
            verb()
    wish.refresh_from_db()
    assert Adjustment.objects.count() == 1 and wish.state == "proposed" and not Transfer.objects.exists()


def test_statements_have_it_as_a_line_of_its_own(customer: Party, provider: Party, olga: User, otto: User) -> None:
    adjustment_confirm(adjustment=proposed(customer, olga, 7 * USDC), actor=otto, now=NOON)
    month = monthly_statement_issue(
        party=customer,
        start=NOON.date().replace(day=1),
        end=datetime(2026, 12, 1, tzinfo=UTC).date(),
        now=NOON + timedelta(days=30),
    )
    assert month is not None
    (line,) = month.facts["lines"]
    assert (line["kind"], line["amount_micro"], line["name"]) == (
        "adjustment",
        7 * USDC,
        "A deposit that we read twice",
    )
    rules(datetime(2026, 6, 1, tzinfo=UTC))
    destination_for(provider, usable_from=datetime(2026, 6, 1, tzinfo=UTC))
    wish = proposed(provider, olga, 9 * USDC, kind="provider_payable", reason="Hours our clock lost")
    adjustment_confirm(adjustment=wish, actor=otto, now=NOON)
    payout = reserved(provider, on=datetime(2026, 11, 16, 0, 5, tzinfo=UTC))
    assert payout is not None and payout.amount_micro == 9 * USDC
    statement = payout_statement_issue(payout=settled(payout, at=datetime(2026, 11, 16, 1, tzinfo=UTC)), now=NOON)
    (line,) = statement.facts["lines"]
    assert (line["kind"], line["amount_micro"], line["name"]) == ("adjustment", 9 * USDC, "Hours our clock lost")


def test_the_trail_says_who_what_before_after_and_why(customer: Party, olga: User, otto: User) -> None:
    wish = proposed(customer, olga)
    adjustment_confirm(adjustment=wish, actor=otto, now=NOON + HOUR)
    entries = AuditEntry.objects.order_by("id")
    assert [(entry.verb, entry.user, entry.party, entry.subject_id) for entry in entries] == [
        ("adjustment_propose", olga, customer, str(wish.pk)),
        ("adjustment_confirm", otto, customer, str(wish.pk)),
    ]
    confirmed = entries[1]
    assert confirmed.before == {"state": "proposed", "balance_micro": 0}
    assert (confirmed.after["state"], confirmed.after["balance_micro"]) == ("posted", 12_500_000)
    assert confirmed.reason == "A deposit that we read twice"
    (event,) = StatusEvent.objects.filter(subject_id=wish.pk)
    assert (event.old, event.new, event.actor) == ("proposed", "posted", f"user:{otto.pk}")


# -- The laws, through raw SQL -----------------------------------------------------------------------------------------


def refused(match: str, statement: str, *parameters: object) -> None:
    with pytest.raises(Error, match=match), transaction.atomic():
        sql(statement, list(parameters))
        connection.check_constraints()


POSTED = "UPDATE billing_adjustment SET state = 'posted', decided_by_id = %s, decided_at = now(), transfer_id = %s"


def test_the_database_wants_two_people_and_exactly_this_transfer(customer: Party, olga: User, otto: User) -> None:
    wish = proposed(customer, olga)
    account, house = wish.account, account_open(kind=Account.Kind.ADJUSTMENTS)

    def moved(source: str, amount: int, kind: str = "adjustment") -> Transfer:
        legs = [(account.pk, amount), (house.pk, -amount)]
        return transfer_post(source=source, kind=kind, legs=legs, effective_at=NOON, now=NOON)

    for source, amount, kind in (
        (f"adjustment:{wish.pk}", 12_500_001, "adjustment"),
        ("adjustment:other", 12_500_000, "adjustment"),
        (f"adjustment:{wish.pk}", 12_500_000, "deposit"),
    ):
        with pytest.raises(Error, match="does not move 12500000"), transaction.atomic():
            sql(POSTED, [otto.pk, moved(source, amount, kind).pk])
    with pytest.raises(Error, match="two_people"), transaction.atomic():
        sql(POSTED, [olga.pk, moved(f"adjustment:{wish.pk}", 12_500_000).pk])
    with pytest.raises(Error, match="two people have not agreed"), transaction.atomic():
        moved(f"adjustment:{wish.pk}", 12_500_000)
        connection.check_constraints()
    assert not Transfer.objects.exists()


def test_the_database_knows_members_amounts_and_ends(customer: Party, provider: Party, olga: User, otto: User) -> None:
    mine = proposed(party_of(otto), olga)
    with pytest.raises(Error, match="their own balance"), transaction.atomic():
        legs = [(mine.account_id, mine.amount_micro), (account_open(kind="adjustments").pk, -mine.amount_micro)]
        moved = transfer_post(source=f"adjustment:{mine.pk}", kind="adjustment", legs=legs, effective_at=NOON, now=NOON)
        sql(POSTED, [otto.pk, moved.pk])
    insert = (
        "INSERT INTO billing_adjustment (id, created_at, account_id, amount_micro, reason, evidence, state, proposed_by_id,"
        " refusal) VALUES (gen_random_uuid(), now(), %s, %s, 'x', 'y', %s, %s, '')"
    )
    account, pending = mine.account_id, account_open(kind="provider_pending", owner=provider).pk
    refused("billing_adjustment_amount", insert, account, 1_000 * USDC + 1, "proposed", olga.pk)
    refused("begins as a proposal", insert, account, 1, "posted", olga.pk)
    refused("not adjusted by hand", insert, pending, 1, "proposed", olga.pk)
    refused("not adjusted by hand", insert, account_open(kind="treasury").pk, 1, "proposed", olga.pk)
    adjustment_refuse(adjustment=mine, reason="no", actor=olga, now=NOON)
    refused("stays so", "UPDATE billing_adjustment SET refusal = 'yes'")
    refused("is refused", "UPDATE billing_adjustment SET amount_micro = 1")
    refused("is refused", "DELETE FROM billing_adjustment")
    refused("is refused", "UPDATE billing_auditentry SET reason = 'x'")
    refused("is refused", "DELETE FROM billing_auditentry")


def test_the_verifier_finds_one_that_nobody_agreed_on(customer: Party, olga: User, otto: User) -> None:
    adjustment_confirm(adjustment=proposed(customer, olga), actor=otto, now=NOON)
    assert integrity.CHECKS["billing.adjustments"]() == []
    legs = [(account_open(kind="customer", owner=customer).pk, 5), (account_open(kind="adjustments").pk, -5)]
    with transaction.atomic():
        transfer_post(source="adjustment:alone", kind="adjustment", legs=legs, effective_at=NOON, now=NOON)
        (found,) = integrity.CHECKS["billing.adjustments"]()
        assert found == ("transfer adjustment:alone", "moved None, two people agreed on None")
        transaction.set_rollback(True)
