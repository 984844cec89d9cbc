"""Numbers without a gap, documents that stay as they were issued, and lines that add up: against raw SQL, too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import Error, connection, transaction

from accounts.models import Party
from billing.models import Document, DocumentSeries
from billing.selectors import integrity
from billing.selectors.documents import DocumentDamaged, facts_hash, facts_of
from billing.services import monthly_statement_issue, months_due, receipt_issue, receipts_issue
from core.errors import Conflict
from tests.factories.billing import USDC, earned
from tests.factories.documents import deposited

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)


def receipts(customer: Party, count: int) -> list[Document]:
    made = [deposited(customer, USDC, at=NOON + timedelta(minutes=n)) for n in range(count)]
    return [receipt_issue(deposit=deposit, now=NOON + timedelta(hours=1)) for deposit in made]


def refused(match: str, statement: str, parameters: list[object] | None = None) -> None:
    with pytest.raises(Error, match=match), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, parameters)


INSERT = """
INSERT INTO billing_document (id, created_at, kind, party_id, series_id, number, issued_at, deposit_id, asset, total_micro,
    facts, sha256)
SELECT gen_random_uuid(), issued_at, kind, party_id, series_id, %s, issued_at, %s, asset, %s, %s::jsonb, sha256
FROM billing_document LIMIT 1
"""


def test_receipts_are_numbered_from_one(customer: Party) -> None:
    first, second = receipts(customer, 2)
    assert (first.label, second.label) == ("R-2026-000001", "R-2026-000002")
    assert first.facts["addressee"]["name"] == "Ravi"
    assert [(line["kind"], line["amount_micro"]) for line in first.facts["lines"]] == [("deposit", USDC)]


def test_a_deposit_has_one_receipt_however_often_it_is_asked_for(customer: Party) -> None:
    deposit = deposited(customer, 5 * USDC, at=NOON)
    assert receipts_issue(now=NOON) == 1
    assert receipts_issue(now=NOON) == 0
    again = receipt_issue(deposit=deposit, now=NOON + timedelta(days=3))
    assert (Document.objects.count(), again.issued_at) == (1, NOON)


def test_a_new_year_is_a_new_series(customer: Party) -> None:
    receipts(customer, 2)
    late = deposited(customer, USDC, at=datetime(2027, 1, 1, tzinfo=UTC))
    assert receipt_issue(deposit=late, now=datetime(2027, 1, 1, tzinfo=UTC)).label == "R-2027-000001"


@pytest.mark.parametrize("number", [1, 2, 4, 0])
def test_a_number_that_is_not_the_next_one_is_refused(customer: Party, number: int) -> None:
    receipts(customer, 2)
    deposit = deposited(customer, 7, at=NOON)
    facts = '{"lines": [{"amount_micro": 7}]}'
    refused("breaks its series: 3 is due|number_once|positive", INSERT, [number, deposit.pk, 7, facts])
    assert DocumentSeries.objects.get().last == 2


def test_the_next_number_is_taken(customer: Party) -> None:
    """The control: the same statement with the due number is welcome, so the refusals above are for their reason."""
    receipts(customer, 2)
    deposit = deposited(customer, 7, at=NOON)
    with connection.cursor() as cursor:
        cursor.execute(INSERT, [3, deposit.pk, 7, '{"lines": [{"amount_micro": 4}, {"amount_micro": 3}]}'])
    assert DocumentSeries.objects.get().last == 3


def test_an_insert_that_a_conflict_drops_uses_no_number(customer: Party) -> None:
    (first,) = receipts(customer, 1)
    with connection.cursor() as cursor:
        cursor.execute(
            INSERT + " ON CONFLICT DO NOTHING", [2, first.deposit_id, USDC, f'{{"lines":[{{"amount_micro":{USDC}}}]}}']
        )
        assert cursor.rowcount == 0
    assert DocumentSeries.objects.get().last == 1


@pytest.mark.parametrize(
    ("total", "facts", "why"),
    [
        (7, '{"lines": [{"amount_micro": 6}]}', "its lines add up to 6, not to 7"),
        (7, '{"lines": []}', "its lines add up to 0, not to 7"),
        (8, '{"lines": [{"amount_micro": 8}]}', "states 8, its credited deposit is 7"),
    ],
)
def test_lines_that_do_not_add_up_are_refused(customer: Party, total: int, facts: str, why: str) -> None:
    receipts(customer, 1)
    deposit = deposited(customer, 7, at=NOON)
    refused(why, INSERT, [2, deposit.pk, total, facts])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE billing_document SET facts = '{}'",
        "UPDATE billing_document SET number = 9",
        "DELETE FROM billing_document",
        "TRUNCATE billing_document",
        "UPDATE billing_documentseries SET last = 5",
        "UPDATE billing_documentseries SET last = last + 1",
        "DELETE FROM billing_documentseries",
        "INSERT INTO billing_documentseries (name, last) VALUES ('X-2026', 4)",
    ],
)
def test_what_was_issued_stays(customer: Party, statement: str) -> None:
    receipts(customer, 1)
    refused("refused|moved by its documents only|begins at 0|permission denied", statement)


def test_facts_that_are_not_those_that_were_issued_are_shown_to_nobody(customer: Party) -> None:
    (document,) = receipts(customer, 1)
    assert facts_of(document) == document.facts
    document.facts = {**document.facts, "sender": "somebody else"}
    with pytest.raises(DocumentDamaged, match="R-2026-000001"):
        facts_of(document)


def test_the_hash_is_of_canonical_json() -> None:
    assert facts_hash({"b": 1, "a": "王"}) == facts_hash({"a": "王", "b": 1}) != facts_hash({"a": "王", "b": 2})


def test_a_sequence_of_the_database_leaves_gaps(customer: Party) -> None:
    """The control: a number of a sequence is gone with the transaction that drew it."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY SEQUENCE drawn")

        def draw(*, fail: bool) -> int:
            with transaction.atomic():
                cursor.execute("SELECT nextval('drawn')")
                number = int(cursor.fetchone()[0])
                if fail:
                    transaction.set_rollback(True)
            return number

        assert [draw(fail=False), draw(fail=True), draw(fail=False)] == [1, 2, 3]  # 2 is nobody's


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE billing_document SET number = 7 WHERE number = 2", "stands at 3, but has 3 documents from 1 to 7"),
        ("DELETE FROM billing_document WHERE number = 3", "stands at 3, but has 2 documents from 1 to 2"),
    ],
)
def test_the_verifier_finds_a_gap_that_the_tables_owner_made(
    customer: Party, monkeypatch: pytest.MonkeyPatch, statement: str, sentence: str
) -> None:
    """The laws hold against the app; whoever owns the tables can lift them. Here a copy of them stands in for that."""
    receipts(customer, 3)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE copy_of_documents AS SELECT * FROM billing_document")
        cursor.execute(statement.replace("billing_document", "copy_of_documents"))
    assert integrity.series_broken() == []
    with monkeypatch.context() as lifted:
        lifted.setattr(integrity, "_SERIES", integrity._SERIES.replace("billing_document d", "copy_of_documents d"))
        assert integrity.series_broken() == [("series R-2026", sentence)]


# Months


def month(customer: Party, year: int, number: int, *, now: datetime | None = None) -> Document | None:
    start = datetime(year, number, 1, tzinfo=UTC)
    end = (start + timedelta(days=32)).replace(day=1)
    return monthly_statement_issue(party=customer, start=start.date(), end=end.date(), now=now or end)


def test_a_customers_november(customer: Party, provider: Party) -> None:
    """Ravi pays in 50 in October and 20 in November, and rents twice: 12.5 on the 3rd, 0.000001 in its last second."""
    deposited(customer, 50 * USDC, at=datetime(2026, 10, 30, tzinfo=UTC))
    deposited(customer, 20 * USDC, at=datetime(2026, 11, 2, tzinfo=UTC))
    earned(provider, customer, 12_500_000, at=datetime(2026, 11, 3, tzinfo=UTC))
    earned(provider, customer, 1, at=datetime(2026, 11, 30, 23, 59, 59, 999_999, tzinfo=UTC))
    earned(provider, customer, 3 * USDC, at=datetime(2026, 12, 1, tzinfo=UTC))  # December's
    found = month(customer, 2026, 11)
    assert found is not None and found.label == "M-2026-000001"
    assert (found.facts["opening_micro"], found.facts["closing_micro"]) == (50 * USDC, 57_499_999)
    assert [(line["kind"], line["amount_micro"]) for line in found.facts["lines"]] == [
        ("deposit", 20 * USDC),
        ("usage", -12_500_000),
        ("usage", -1),
    ]
    december = month(customer, 2026, 12)
    assert december is not None
    assert (december.facts["opening_micro"], december.total_micro) == (57_499_999, -3 * USDC)


def test_what_is_posted_too_late_for_a_month_is_in_the_next(customer: Party, provider: Party) -> None:
    deposited(customer, 50 * USDC, at=datetime(2026, 11, 2, tzinfo=UTC))
    earned(provider, customer, USDC, at=datetime(2026, 12, 1, 1, tzinfo=UTC))  # December's, posted before the issue
    november = month(customer, 2026, 11, now=datetime(2026, 12, 1, 3, tzinfo=UTC))
    deposited(customer, 7 * USDC, at=datetime(2026, 11, 30, 22, tzinfo=UTC))  # the node was away for hours
    december = month(customer, 2026, 12)
    assert november is not None and december is not None
    assert november.facts["closing_micro"] == december.facts["opening_micro"] == 50 * USDC
    assert [line["amount_micro"] for line in december.facts["lines"]] == [7 * USDC, -USDC]
    assert december.facts["closing_micro"] == 56 * USDC


def test_a_month_in_which_nothing_moved_has_no_statement_and_breaks_no_chain(customer: Party) -> None:
    deposited(customer, 50 * USDC, at=datetime(2026, 9, 2, tzinfo=UTC))
    assert month(customer, 2026, 9) and month(customer, 2026, 10) is None
    deposited(customer, 5 * USDC, at=datetime(2026, 11, 2, tzinfo=UTC))
    november = month(customer, 2026, 11)
    assert november is not None and november.facts["opening_micro"] == 50 * USDC


def test_months_are_due_in_their_order_from_the_first_that_moved(customer: Party) -> None:
    now = datetime(2026, 12, 1, 2, tzinfo=UTC)
    assert months_due(customer, now) == []
    deposited(customer, USDC, at=datetime(2026, 9, 30, 23, 59, tzinfo=UTC))
    assert [start.month for start, _end in months_due(customer, now)] == [9, 10, 11]
    month(customer, 2026, 9)
    assert [start.month for start, _end in months_due(customer, now)] == [10, 11]


def test_a_month_that_runs_and_one_before_a_stated_one_are_refused(customer: Party) -> None:
    deposited(customer, USDC, at=datetime(2026, 9, 2, tzinfo=UTC))
    deposited(customer, USDC, at=datetime(2026, 11, 2, tzinfo=UTC))
    with pytest.raises(Conflict, match="2026-11 is not over"):
        month(customer, 2026, 11, now=datetime(2026, 11, 30, 23, 59, tzinfo=UTC))
    month(customer, 2026, 11)
    with pytest.raises(Conflict, match="a later one than 2026-09"):
        month(customer, 2026, 9, now=datetime(2026, 12, 2, tzinfo=UTC))
    assert Document.objects.count() == 1


def test_a_customer_without_money_has_no_statement(customer: Party) -> None:
    assert month(customer, 2026, 11) is None
    assert not Document.objects.exists()
