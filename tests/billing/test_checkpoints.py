"""A house account's balance is its last checkpoint and what came after it, whoever commits late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Max, Sum

from accounts.models import Party
from accounts.selectors import party_of
from billing.models import Account, BalanceCheckpoint, Posting, PostingFence
from billing.selectors import integrity
from billing.selectors.balances import house_balance
from billing.services import checkpoints_take
from core import clock
from tests.agent.waiting import eventually
from tests.factories.billing import earned, funded
from tests.factories.cast import person

FEE = 10


def take() -> int:
    return checkpoints_take(now=clock.now())


def take_all() -> None:
    """Until everything posted so far is in a checkpoint. A fence waits for every open transaction of the cluster, and other
    tests have theirs."""
    newest = Posting.objects.aggregate(newest=Max("id"))["newest"]
    fenced = BalanceCheckpoint.objects.filter(posting_id__gte=newest)
    eventually(lambda: take() >= 0 and fenced.exists(), "the fence is passed", 300)


def fee_account() -> Account:
    return Account.objects.get(owner=None, kind="platform_fee", asset="USDC")


def posted_while(between: Callable[[], None], provider: Party) -> None:
    """A charge whose transaction gets its ids before ``between`` and commits after it."""
    customer = party_of(person("eve"))
    funded(customer, 1_000)
    written, go_on = threading.Event(), threading.Event()

    def late() -> None:
        try:
            with transaction.atomic():
                earned(provider, customer, 100)
                written.set()
                assert go_on.wait(60)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(late)
        assert written.wait(60)
        try:
            between()
        finally:
            go_on.set()
        running.result(60)


def test_a_checkpoint_up_to_the_largest_posting_loses_one_that_commits_late_the_race(
    committed_db: str, provider: Party, customer: Party
) -> None:
    """The control: what a sum up to the largest visible id says, and what those postings add up to in the end."""
    funded(customer, 1_000)
    earned(provider, customer, 100)
    seen: list[int] = []

    def naive() -> None:
        earned(provider, customer, 100)
        newest = Posting.objects.aggregate(newest=Max("id"))["newest"]
        total = Posting.objects.filter(account=fee_account(), id__lte=newest).aggregate(total=Sum("amount"))["total"]
        seen.extend((newest, total))

    posted_while(naive, provider)
    newest, total = seen
    settled = Posting.objects.filter(account=fee_account(), id__lte=newest).aggregate(total=Sum("amount"))["total"]
    assert (total, settled) == (2 * FEE, 3 * FEE)


def test_a_fence_waits_for_those_that_commit_late(committed_db: str, provider: Party, customer: Party) -> None:
    funded(customer, 1_000)
    earned(provider, customer, 100)

    def fence_twice() -> None:
        earned(provider, customer, 100)
        take()
        assert take() == 0  # the fence stands behind a posting that nobody can see yet
        assert house_balance("platform_fee") == 2 * FEE

    posted_while(fence_twice, provider)
    assert not BalanceCheckpoint.objects.filter(account=fee_account()).exists()
    take_all()
    assert BalanceCheckpoint.objects.filter(account=fee_account()).latest("posting_id").balance == 3 * FEE
    assert house_balance("platform_fee") == 3 * FEE
    assert integrity.checkpoints_drifted() == []


def test_checkpoints_go_on_from_each_other_and_twins_write_the_same(
    committed_db: str, provider: Party, customer: Party
) -> None:
    funded(customer, 1_000)
    for charges in range(1, 4):
        earned(provider, customer, 100)
        take_all()
        assert take() == 0
        assert BalanceCheckpoint.objects.filter(account=fee_account()).latest("posting_id").balance == charges * FEE
    earned(provider, customer, 100)
    assert house_balance("platform_fee") == 4 * FEE
    fences = PostingFence.objects.count()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: (take(), connection.close()), range(4)))
    assert PostingFence.objects.count() > fences
    take_all()
    assert house_balance("platform_fee") == 4 * FEE
    assert integrity.checkpoints_drifted() == []


def test_a_wrong_checkpoint_is_found(committed_db: str, provider: Party, customer: Party) -> None:
    funded(customer, 1_000)
    earned(provider, customer, 100)
    newest = Posting.objects.aggregate(newest=Max("id"))["newest"]
    with transaction.atomic():
        BalanceCheckpoint.objects.create(account=fee_account(), posting_id=newest, balance=FEE + 1, at=clock.now())
        assert house_balance("platform_fee") == FEE + 1  # it is believed: what came before is not read again
        (found,) = integrity.checkpoints_drifted()
        assert found == (
            "account platform_fee USDC",
            f"checkpoint {FEE + 1} up to posting {newest}, its postings add up to {FEE}",
        )
        transaction.set_rollback(True)


@pytest.mark.parametrize("table", ["billing_balancecheckpoint", "billing_postingfence"])
@pytest.mark.parametrize("change", ["UPDATE {} SET posting_id = posting_id + 1", "DELETE FROM {}", "TRUNCATE {}"])
def test_checkpoints_are_written_once(
    committed_db: str, provider: Party, customer: Party, table: str, change: str
) -> None:
    funded(customer, 1_000)
    take_all()
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute(change.format(table))
    assert BalanceCheckpoint.objects.exists() and PostingFence.objects.exists()
