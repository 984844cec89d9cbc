"""Many documents at once, on databases of their own. Where a guard prevents a race, the race is shown first without it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from django.db import connection, transaction

from accounts.models import Party
from billing.models import Document, DocumentSeries
from billing.services import receipt_issue
from tests.billing.test_documents import NOON, month, receipts
from tests.billing.test_races import at_once
from tests.factories.billing import USDC
from tests.factories.documents import deposited


def test_ten_receipts_at_once_the_race(committed_db: str, customer: Party) -> None:
    """The control: whoever reads the highest number and adds one gets what all the others get."""
    receipts(customer, 3)
    all_have_read = threading.Barrier(10)

    def read(_: int) -> int:
        found = Document.objects.order_by("-number").values_list("number", flat=True)[0] + 1
        all_have_read.wait(30)
        return found

    assert at_once(read) == [4] * 10


def test_ten_receipts_at_once_have_ten_numbers(committed_db: str, customer: Party) -> None:
    made = [deposited(customer, USDC, at=NOON) for _ in range(10)]
    issued = at_once(lambda number: receipt_issue(deposit=made[number], now=NOON).number)
    assert sorted(issued) == list(range(1, 11))


def test_ten_times_the_same_receipt_at_once_is_one(committed_db: str, customer: Party) -> None:
    deposit = deposited(customer, USDC, at=NOON)
    assert len(set(at_once(lambda _: receipt_issue(deposit=deposit, now=NOON).pk))) == 1
    assert Document.objects.count() == DocumentSeries.objects.get().last == 1


def test_a_number_that_is_rolled_back_is_the_next_ones(committed_db: str, customer: Party) -> None:
    """One takes number 1 and dies before its commit, while another waits for the series: that one gets number 1."""
    first, second = (deposited(customer, USDC, at=NOON) for _ in range(2))
    taken, waiting = threading.Event(), threading.Event()

    def dies() -> None:
        try:
            with transaction.atomic():
                assert receipt_issue(deposit=first, now=NOON).number == 1
                taken.set()
                assert waiting.wait(60)
                transaction.set_rollback(True)
        finally:
            connection.close()

    def follows() -> int:
        try:
            assert taken.wait(60)
            waiting.set()
            return receipt_issue(deposit=second, now=NOON).number
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        dying = pool.submit(dies)
        assert pool.submit(follows).result(90) == 1
        dying.result(90)
    assert receipt_issue(deposit=first, now=NOON).number == 2


def test_eight_monthly_jobs_at_once_issue_one_statement(committed_db: str, customer: Party) -> None:
    deposited(customer, USDC, at=NOON)
    found = at_once(lambda _: month(customer, 2026, 11), 8)
    assert len({document.pk for document in found if document}) == 1
    assert Document.objects.count() == DocumentSeries.objects.get().last == 1
