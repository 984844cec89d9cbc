"""The bank of the tests (mock-bank, over HTTP as a real one would be), and what bank payout tests do again and again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from typing import Any

from mockbank import Config, make_server

from accounts.models import Party, User
from accounts.services import party_legal_name_set
from billing.models import BankFile, BankMessage, Destination, EurRate, Payout
from billing.services import (
    bank_file_approve,
    bank_file_make,
    bank_message_import,
    destination_bank_set,
    earnings_mature,
    eur_rate_confirm,
    eur_rate_enter,
    payout_approve,
    payout_run_start,
    payouts_run,
    policy_set,
)
from tests.factories.billing import earned

OUR_IBAN, OUR_BIC, OUR_NAME = "DE89370400440532013000", "COBADEFFXXX", "GPUnex Operations GmbH"
IBAN, OTHER_IBAN, THIRD_IBAN = "NL91ABNA0417164300", "FR1420041010050500013M02606", "AT611904300234573201"
CLOSED_IBAN = "NL84MOCK0000000003"
"""An account that mock-bank holds, and has closed."""
MONDAY = datetime(2026, 12, 7, 16, 30, tzinfo=UTC)
REFERENCE = "1.1702"
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class Bank:
    """One mock bank with our account in it. Its day moves when the test says so."""

    def __init__(self, port: int) -> None:
        self._port = port

    def call(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": content_type})
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status < 500, text
            return json.loads(text) if text else None
        finally:
            connection.close()

    def send(self, file: BankFile) -> Any:
        return self.call("POST", "/payments", bytes(file.data), "application/xml")

    def behave(self, behaviour: str, **parameters: Any) -> None:
        wish = {"behaviour": behaviour, "parameters": parameters}
        self.call("PATCH", "/_mock/accounts/GPX", json.dumps(wish).encode())

    def credit(self, cents: int, note: str) -> None:
        """Money of somebody else arrives."""
        wish = {"account": "GPX", "amount": cents, "note": note, "debtor": {"name": "Somebody", "iban": IBAN}}
        self.call("POST", "/_mock/credits", json.dumps(wish).encode())

    def to(self, day: str) -> None:
        self.call("POST", f"/_mock/advance?to={day}")

    def mail(self, kind: str) -> list[bytes]:
        """The files of a kind (``pain.002``, ``camt.053``) that the bank has for us, oldest first; taken once."""
        rows = self.call("GET", f"/_mock/mailbox?type={kind}")
        return [row["body"].encode() for row in rows if row["account"] == "GPX"]


@contextmanager
def mock_bank(day: str) -> Iterator[Bank]:
    server = make_server(Config(port=0, clock=f"{day}T08:00", quiet=True))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        bank = Bank(server.server_address[1])
        account = {"id": "GPX", "name": OUR_NAME, "iban": OUR_IBAN, "currency": "EUR", "balance": 100_000_00}
        bank.call("POST", "/_mock/accounts", json.dumps(account).encode())
        yield bank
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)


def bank_settings(settings: Any) -> None:
    settings.BANK_SEPA_IBAN, settings.BANK_SEPA_BIC, settings.BANK_SEPA_HOLDER = OUR_IBAN, OUR_BIC, OUR_NAME


def policies() -> None:
    """No waiting, but two people: what a bank payout has to go through."""
    for name in ("maturing_seconds", "maturing_new_provider_seconds", "destination_cool_down_seconds"):
        policy_set(name=name, value=0, valid_from=BEGINNING)


def bank_account(
    party: Party, iban: str = IBAN, *, name: str = "Ada Lovelace & Söhne", now: datetime = MONDAY
) -> Destination:
    party_legal_name_set(party=party, name=name)
    return destination_bank_set(party=party, account=iban, scheme="sepa", now=now)


def rate(olga: User, otto: User, reference: str = REFERENCE, *, now: datetime = MONDAY) -> EurRate:
    """Published an hour ago, entered by Olga and confirmed by Otto."""
    entered = eur_rate_enter(
        reference=reference, source="ECB", published_at=now - timedelta(hours=1), actor=olga, now=now
    )
    return eur_rate_confirm(rate=entered, actor=otto, now=now)


def owed(party: Party, customer: Party, amount_micro: int, *, now: datetime = MONDAY) -> None:
    at = now - timedelta(days=2)
    earned(party, customer, amount_micro, fee_bps=0, at=at)
    earnings_mature(now=at)


def planned(now: datetime = MONDAY) -> None:
    for run in payouts_run(as_of=now.date(), now=now):
        payout_run_start(run_id=run.pk, now=now)


def approved(payout: Payout, *people: User, now: datetime = MONDAY) -> Payout:
    for each in people:
        payout = payout_approve(payout=payout, approver=each, now=now)
    return payout


def released(
    party: Party,
    customer: Party,
    amount_micro: int,
    people: tuple[User, User],
    *,
    iban: str = IBAN,
    now: datetime = MONDAY,
) -> Payout:
    """A bank payout of this Monday's weekly run, at a confirmed rate, released by two people."""
    bank_account(party, iban, now=now)
    owed(party, customer, amount_micro, now=now)
    planned(now)
    return approved(Payout.objects.get(party=party, run__kind="weekly", run__period_end=now.date()), *people, now=now)


def file_of(people: tuple[User, User], *, now: datetime = MONDAY) -> BankFile:
    """Made by the first, approved by the second."""
    made = bank_file_make(scheme="sepa", actor=people[0], now=now)
    return bank_file_approve(file=made, actor=people[1], now=now)


def take_in(data: bytes, actor: User, *, now: datetime = MONDAY) -> BankMessage:
    return bank_message_import(data=data, scheme="sepa", actor=actor, now=now)
