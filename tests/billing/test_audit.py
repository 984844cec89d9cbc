"""Every deed of a person with money leaves its line: who, what, before, after, why. What is refused leaves none."""

from __future__ import annotations

import ast
import inspect
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from accounts.models import Party, User
from accounts.selectors import party_of
from billing import services
from billing.admin.adjustments import VERBS
from billing.models import AuditEntry, BankEntry, Payout
from billing.services.audit import audit_record
from core.errors import Conflict, DomainError
from tests.billing.bank import (
    IBAN,
    MONDAY,
    OTHER_IBAN,
    approved,
    bank_account,
    bank_settings,
    file_of,
    owed,
    planned,
    policies,
    rate,
    released,
    take_in,
)
from tests.billing.bank_files import Entry, statement

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
People = tuple[User, User]


@pytest.fixture
def people(settings: Any, olga: User, otto: User) -> People:
    bank_settings(settings)
    policies()
    return olga, otto


def entries(verb: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(verb=verb).order_by("id"))


def test_a_euro_rate_and_a_file_by_two(people: People, provider: Party, customer: Party) -> None:
    rate(*people)
    payout = released(provider, customer, 60_000_000, people)
    file = file_of(people)
    (entered,), (confirmed,) = entries("eur_rate_enter"), entries("eur_rate_confirm")
    assert (entered.user, confirmed.user, confirmed.reason) == (people[0], people[1], "ECB")
    assert (confirmed.before, confirmed.after["confirmed"]) == ({"confirmed": False}, True)
    assert entered.after["reference_micro"] == 1_170_200
    first, second = entries("payout_approve")
    assert (first.user, second.user) == people and second.party == provider
    assert (second.before, second.after["approvals"], second.after["amount_micro"]) == (
        {"approvals": 1},
        2,
        payout.amount_micro,
    )
    (made,), (yes,) = entries("bank_file_make"), entries("bank_file_approve")
    assert (made.subject_id, made.after["lines"], yes.before, yes.after["approved"]) == (
        str(file.pk),
        1,
        {"approved": False},
        True,
    )


def test_what_two_people_said_about_the_bank(people: People, provider: Party, customer: Party) -> None:
    rate(*people)
    released(provider, customer, 60_000_000, people)
    line = file_of(people).lines.get()
    take_in(statement(Entry(-line.amount_cents)), people[0])
    entry = BankEntry.objects.get()
    said = services.bank_decision_propose(
        verdict="settled", entry=entry, line=line, reason="the bank lost the id", actor=people[0], now=MONDAY
    )
    services.bank_decision_confirm(decision=said, actor=people[1], now=MONDAY)
    (imported,), (wish,), (yes,) = (
        entries(f"bank_{verb}") for verb in ("message_import", "decision_propose", "decision_confirm")
    )
    assert imported.user == people[0] and imported.after["outcome"]
    assert (wish.user, yes.user, yes.reason, yes.party) == (*people, "the bank lost the id", provider)
    assert yes.before == {"line": "written", "entry": "suspense"} and yes.after["verdict"] == "settled"


def test_a_cancel_says_why_and_a_switch_who(people: People, provider: Party, customer: Party) -> None:
    bank_account(provider)
    owed(provider, customer, 60_000_000)
    rate(*people)
    planned()
    payout = Payout.objects.get()
    services.payout_cancel(payout=payout, reason="asked by the payee", actor=people[0], now=MONDAY)
    (cancelled,) = entries("payout_cancel")
    assert (cancelled.user, cancelled.before, cancelled.after["status"], cancelled.reason) == (
        people[0],
        {"status": "awaiting_release"},
        "cancelled",
        "asked by the payee",
    )
    services.payouts_freeze(frozen=True, reason="the books", now=MONDAY, actor="system")
    services.payouts_freeze(frozen=False, reason="looked at", now=MONDAY, actor="command line")
    (thawed,) = entries("payouts_freeze")  # what happens by itself is no deed of a person
    assert (thawed.user, thawed.actor, thawed.before, thawed.after) == (
        None,
        "command line",
        {"frozen": True},
        {"frozen": False},
    )


def test_policies_fees_and_runs_by_hand(people: People) -> None:
    assert entries("policy_set") == []
    services.policy_set(name="maturing_seconds", value=7, valid_from=MONDAY, actor=people[0])
    services.policy_set(name="maturing_seconds", value=7, valid_from=MONDAY, actor=people[0])
    services.fee_rate_set(bps=800, valid_from=MONDAY + HOUR, now=MONDAY, actor=people[0])
    services.payouts_run(as_of=MONDAY.date(), now=MONDAY, actor=people[0])
    (policy,), (fee,), runs = entries("policy_set"), entries("fee_rate_set"), entries("payouts_run")
    assert (policy.before, policy.after["value"]) == ({"value": 0}, 7)
    assert (fee.before, fee.after["bps"]) == ({"bps": 1_000}, 800)
    assert [run.user for run in runs] == [people[0]] * 2 and {run.after["payouts"] for run in runs} == {0}


def test_a_destination_is_masked(people: People, provider: Party) -> None:
    bank_account(provider, IBAN)
    bank_account(provider, OTHER_IBAN, now=MONDAY + HOUR)
    first, second = entries("destination_set")
    assert (first.before, second.before["to"], second.party) == ({}, "NL91 •••• 4300", provider)
    assert not any(
        number in str([entry.before, entry.after]) for number in (IBAN, OTHER_IBAN) for entry in (first, second)
    )


def test_what_is_refused_leaves_no_line(people: People, provider: Party, customer: Party) -> None:
    rate(*people)
    payout = released(provider, customer, 60_000_000, people)
    file_of(people)
    before = AuditEntry.objects.count()
    payout.refresh_from_db()
    refused: list[Any] = [
        lambda: services.payout_cancel(payout=payout, reason="no", actor=people[0], now=MONDAY),
        lambda: approved(payout, people[0]),
        lambda: services.payouts_freeze(frozen=True, reason=" ", actor=people[0], now=MONDAY),
    ]
    for verb in refused:
        with pytest.raises(DomainError):
            verb()
    assert AuditEntry.objects.count() == before


def test_a_deed_that_is_rolled_back_leaves_no_line(people: People) -> None:
    with pytest.raises(Conflict), transaction.atomic():
        services.payouts_freeze(frozen=True, reason="x", actor=people[0], now=MONDAY)
        raise Conflict("something later in the same transaction")
    assert not AuditEntry.objects.exists()


def test_it_wants_a_transaction(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    from_outside = type("Outside", (), {"in_atomic_block": False})()
    monkeypatch.setattr("billing.services.audit.connection", from_outside)
    with pytest.raises(RuntimeError, match="one transaction"):
        audit_record(verb="x", subject=party_of(people[0]), actor=people[0], before={}, after={}, now=MONDAY)


SHOWN_ONLY = {"destination_show", "bank_file_fetch", "bank_message_show"}
"""They change nothing; who looked is in ``Disclosure``."""


THROUGH = {"withdrawal_cancel": "payout_cancel"}
"""They are another verb with a name for customers, and written down as that."""


def test_every_verb_of_a_person_writes_its_line_and_has_its_words() -> None:
    """Of the services that billing offers: whatever takes an actor calls ``audit_record`` in its own module, by its name."""
    verbs = {}
    for name in services.__all__:
        function = getattr(services, name)
        if not inspect.isfunction(function) or name == "audit_record":
            continue
        if {"actor", "approver"} & set(inspect.signature(function).parameters):
            verbs[name] = inspect.getsource(inspect.getmodule(function))  # type: ignore[arg-type]
    assert verbs.keys() >= {*SHOWN_ONLY, *THROUGH, *THROUGH.values()}
    for name in verbs.keys() - SHOWN_ONLY - THROUGH.keys():
        said = {node.value for node in ast.walk(ast.parse(verbs[name])) if isinstance(node, ast.Constant)}
        assert name in said and "audit" in verbs[name], f"{name} writes no audit entry"
        assert name in VERBS, f"{name} has no words in the audit trail's page"
