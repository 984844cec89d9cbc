"""Payment files: released payouts only, written before anybody can fetch them, the same bytes for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import Error, connection, transaction

from accounts.models import Party, User
from billing.models import BankFile, BankLine, Disclosure, Payout, PayoutAttempt
from billing.selectors import in_flight_of
from billing.services import (
    BankUnavailable,
    bank_file_approve,
    bank_file_fetch,
    bank_file_make,
    payout_advance,
    payout_approve,
    payout_cancel,
    payouts_freeze,
    payouts_sweep,
)
from billing.services.bank import files
from billing.services.payouts.release import payout_binding
from billing.services.payouts.screening import DENIED_FILE
from core.errors import Conflict, Denied, DomainError, Invalid, NotFound
from core.ids import uuid7
from tests.billing.bank import (
    IBAN,
    MONDAY,
    OTHER_IBAN,
    approved,
    bank_account,
    bank_settings,
    owed,
    planned,
    policies,
    rate,
    released,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def people(settings: Any, olga: User, otto: User) -> tuple[User, User]:
    bank_settings(settings)
    policies()
    rate(olga, otto)
    return olga, otto


@pytest.fixture
def payout(people: tuple[User, User], provider: Party, customer: Party) -> Payout:
    return released(provider, customer, 60_000_000, people)


def make(actor: User) -> BankFile:
    return bank_file_make(scheme="sepa", actor=actor, now=MONDAY)


def test_only_released_payouts_are_in_it_and_only_once(
    people: tuple[User, User], provider: Party, customer: Party
) -> None:
    bank_account(customer, OTHER_IBAN, name="Ravi")
    owed(customer, provider, 30_000_000)
    first = released(provider, customer, 60_000_000, people)
    waiting = Payout.objects.get(party=customer)
    file = make(people[0])
    (line,) = file.lines.all()
    assert (line.payout, line.amount_cents, line.end_to_end_id) == (first, first.amount_cents, first.pk.hex)
    first.refresh_from_db()
    assert (first.status, waiting.status) == ("submitted", "awaiting_release")
    assert (file.line_count, file.control_cents) == (1, first.amount_cents)
    assert IBAN.encode() in bytes(file.data) and OTHER_IBAN.encode() not in bytes(file.data)
    with pytest.raises(Conflict, match="No released"):
        make(people[0])
    approved(waiting, *people)
    assert make(people[1]).lines.get().payout == waiting


def test_it_is_fetched_after_a_second_persons_yes_always_the_same_and_written_down(
    people: tuple[User, User], payout: Payout
) -> None:
    file = make(people[0])
    with pytest.raises(Conflict, match="second person"):
        bank_file_fetch(file_id=file.pk, actor=people[0], now=MONDAY)
    with pytest.raises(Denied, match="somebody else"):
        bank_file_approve(file=file, actor=people[0], now=MONDAY)
    bank_file_approve(file=file, actor=people[1], now=MONDAY)
    bank_file_approve(file=file, actor=people[1], now=MONDAY)
    bytes_found = {bytes(bank_file_fetch(file_id=file.pk, actor=each, now=MONDAY).data) for each in people}
    assert bytes_found == {bytes(file.data)}
    assert [(row.what, row.actor) for row in Disclosure.objects.order_by("id")] == [("file", each) for each in people]
    with pytest.raises(NotFound):
        bank_file_fetch(file_id=uuid7(), actor=people[0], now=MONDAY)


def test_a_crash_while_it_is_made_leaves_nothing(
    people: tuple[User, User], payout: Payout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(files.BankLine.objects, "create", crash)
    with pytest.raises(RuntimeError):
        make(people[0])
    monkeypatch.undo()
    payout.refresh_from_db()
    assert payout.status == "ready" and not BankFile.objects.exists()
    assert make(people[0]).lines.count() == 1


@pytest.mark.parametrize("obstacle", ["suspended", "cooling", "denied"])
def test_a_payee_who_may_not_be_paid_is_held_up_with_the_reason(
    people: tuple[User, User], payout: Payout, settings: Any, tmp_path: Path, obstacle: str
) -> None:
    settings.DATA_DIR = tmp_path
    if obstacle == "suspended":
        Party.objects.filter(pk=payout.party_id).update(status="suspended")
    elif obstacle == "denied":
        (tmp_path / DENIED_FILE).write_text(f"{IBAN}\n")
    else:
        payout.destination.usable_from = MONDAY.replace(hour=23)
        payout.destination.save(update_fields=["usable_from"])
    with pytest.raises(Conflict, match="No released"):
        make(people[0])
    payout.refresh_from_db()
    assert payout.status == "blocked" and payout.note
    Party.objects.update(status="active")
    (tmp_path / DENIED_FILE).unlink(missing_ok=True)
    later = MONDAY.replace(hour=23, minute=30)
    assert bank_file_make(scheme="sepa", actor=people[0], now=later).lines.get().payout == payout


def test_nothing_is_made_while_payouts_are_frozen_or_there_is_no_account(
    people: tuple[User, User], payout: Payout, settings: Any
) -> None:
    payouts_freeze(frozen=True, reason="an audit", now=MONDAY)
    with pytest.raises(Conflict, match="an audit"):
        make(people[0])
    payouts_freeze(frozen=False, reason="done", now=MONDAY)
    with pytest.raises(Invalid):
        bank_file_make(scheme="nacha", actor=people[0], now=MONDAY)
    settings.BANK_SEPA_IBAN = ""
    with pytest.raises(BankUnavailable):
        make(people[0])
    payout.refresh_from_db()
    assert payout.status == "ready" and not BankFile.objects.exists()


def test_who_is_paid_by_it_neither_makes_nor_approves_it(
    people: tuple[User, User], payout: Payout, ada: User, eve: User
) -> None:
    ada.is_staff = True
    ada.save(update_fields=["is_staff"])
    ada.user_permissions.set(people[0].user_permissions.all())
    ada = User.objects.get(pk=ada.pk)
    for verb in (make, lambda who: payout_approve(payout=payout, approver=who, now=MONDAY)):
        with pytest.raises(DomainError):
            verb(ada)
    file = make(people[0])
    for who in (ada, eve):
        with pytest.raises(Denied):
            bank_file_approve(file=file, actor=who, now=MONDAY)
    with pytest.raises(Denied):
        bank_file_fetch(file_id=file.pk, actor=eve, now=MONDAY)
    file.refresh_from_db()
    assert file.approved_at is None and not Disclosure.objects.exists()


def test_the_money_worker_leaves_bank_payouts_alone(people: tuple[User, User], payout: Payout) -> None:
    assert payout_advance(payout_id=payout.pk, now=MONDAY) == "busy"
    payouts_sweep(now=MONDAY)
    payout.refresh_from_db()
    assert payout.status == "ready" and not PayoutAttempt.objects.exists()


def test_an_approval_is_of_exactly_this_account_holder_and_amount(
    people: tuple[User, User], provider: Party, customer: Party
) -> None:
    bank_account(provider)
    owed(provider, customer, 60_000_000)
    planned()
    payout = Payout.objects.get()
    binding = payout_binding(payout)
    payout.amount_cents = (payout.amount_cents or 0) + 1
    assert payout_binding(payout) != binding
    payout.refresh_from_db()
    payout.destination.holder = "Eve"
    assert payout_binding(payout) != binding
    payout_approve(payout=payout, approver=people[0], now=MONDAY)
    payout.refresh_from_db()
    assert payout.status == "awaiting_release"


# -- Laws, through raw SQL ---------------------------------------------------------------------------------------------


def sql(statement: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, list(values))


def refused(match: str, *steps: Callable[[], object] | str) -> None:
    with pytest.raises(Error, match=match), transaction.atomic():
        for step in steps:
            sql(step) if isinstance(step, str) else step()
        connection.check_constraints()


def test_while_a_line_is_unresolved_the_database_refuses_a_cancel_and_a_change_of_rail(
    people: tuple[User, User], payout: Payout
) -> None:
    file = make(people[0])
    line = file.lines.get()
    cancel = f"UPDATE billing_payout SET status = 'cancelled', closing_transfer_id = '{payout.reserve_transfer_id}'"
    for state in ("written", "accepted"):
        BankLine.objects.filter(pk=line.pk).update(state=state)
        refused("cannot be cancelled: the bank may still pay it", cancel)
        refused("written once", "UPDATE billing_payout SET rail = 'usdc'")
    with pytest.raises(DomainError):
        payout.refresh_from_db()
        payout_cancel(payout=payout, reason="no", now=MONDAY)
    assert in_flight_of(payout.party) == payout.amount_micro


def test_a_payout_is_settled_by_a_booked_line_only(people: tuple[User, User], payout: Payout) -> None:
    make(people[0])
    settle = f"UPDATE billing_payout SET status = 'settled', closing_transfer_id = '{payout.reserve_transfer_id}'"
    refused("no line of it is booked", settle)


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("UPDATE billing_bankfile SET data = 'x'", "written once"),
        ("UPDATE billing_bankfile SET control_cents = 1", "written once"),
        ("UPDATE billing_bankfile SET message_id = 'x'", "written once"),
        ("DELETE FROM billing_bankfile", "written once|foreign key|permission"),
        ("TRUNCATE billing_bankfile CASCADE", "written once|permission denied"),
        ("UPDATE billing_bankline SET amount_cents = 1", "written once"),
        ("UPDATE billing_bankline SET end_to_end_id = 'x'", "written once"),
        ("DELETE FROM billing_bankline", "written once"),
        ("UPDATE billing_payout SET amount_cents = 1", "written once"),
        ("UPDATE billing_payout SET currency = 'USD'", "written once"),
        ("UPDATE billing_destination SET holder = 'Eve'", "written once"),
        ("UPDATE billing_eurrate SET reference_micro = 1", "written once"),
        ("UPDATE billing_eurrate SET confirmed_by_id = entered_by_id", "written once|two_people"),
        ("UPDATE billing_bankfile SET approved_by_id = made_by_id, approved_at = now()", "two_people"),
        ("UPDATE billing_disclosure SET what = 'x'", "written once"),
        ("DELETE FROM billing_disclosure", "written once"),
    ],
)
def test_what_is_written_stays_written(people: tuple[User, User], payout: Payout, statement: str, match: str) -> None:
    make(people[0])
    Disclosure.objects.create(what="file", subject_id=payout.pk, actor=people[0], at=MONDAY)
    refused(match, statement)


def test_a_payout_has_one_live_line_and_a_file_has_its_lines(people: tuple[User, User], payout: Payout) -> None:
    file = make(people[0])

    def add(cents: int | None, n: int = 2) -> Callable[[], object]:
        return lambda: BankLine.objects.create(
            file=file, payout=payout, n=n, end_to_end_id=f"x{n}", amount_cents=cents or 0
        )

    refused("billing_bankline_one_live", add(payout.amount_cents))
    line = file.lines.get()
    BankLine.objects.filter(pk=line.pk).update(state="rejected")
    refused("says 1 lines", add(payout.amount_cents))
    refused("its payout", add(1))
    refused("stays so", f"UPDATE billing_bankline SET state = 'written' WHERE id = '{line.pk}'")
    refused("may be signed", lambda: _attempt(payout))
    BankLine.objects.filter(pk=line.pk).update(state="rejected")
    Payout.objects.filter(pk=payout.pk).update(status="ready")


def _attempt(payout: Payout) -> None:
    PayoutAttempt.objects.create(
        payout=payout,
        n=1,
        message=b"m",
        raw=b"r",
        signature="s",
        blockhash="b",
        last_valid_block_height=1,
        context_slot=1,
        hot_wallet="h",
    )
