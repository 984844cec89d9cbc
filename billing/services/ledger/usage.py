"""Usage and service credits: customer → provider pending + platform fee, per GPU, and the way back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import DatabaseError, connection, transaction

from accounts.models import Party
from billing.fees import fee_split, line_split
from billing.models import Account, Transfer
from billing.selectors.policies import policy_value
from billing.services.ledger.accounts import accounts_open
from billing.services.ledger.transfers import BATCH, Line, Posted, TransferInput, transfers_post_many
from core.errors import DomainError, Invalid

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EarningInput:
    """A GPU that earned: billing knows it by these labels only."""

    gpu_id: UUID
    gpu_model: str
    rental_id: UUID


@dataclass(frozen=True, slots=True)
class UsageInput:
    """One charge. ``lines``: one per GPU; the provider's part is split over them equally."""

    source: str
    customer: Party
    provider: Party
    amount_micro: int
    fee_bps: int
    lines: Sequence[EarningInput]
    effective_at: datetime
    hold_source: str | None = None


@dataclass(frozen=True, slots=True)
class UsageAnswer:
    """What became of one charge: ``transfer_id`` (None for 0), whether this call wrote it, or the error that stopped it."""

    source: str
    transfer_id: UUID | None
    created: bool
    error: Exception | None = None


# Set-based: a batch of fifty captures costs two statements. What a hold gave is the difference of its row before and after.
_CAPTURE = """
UPDATE billing_hold h SET amount_micro = h.amount_micro - LEAST(h.amount_micro, c.amount),
    captured_micro = h.captured_micro + LEAST(h.amount_micro, c.amount)
FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS c(source, account_id, amount)
WHERE h.source = c.source AND h.account_id = c.account_id AND h.state = 'open'
RETURNING h.account_id, old.amount_micro - new.amount_micro
"""
_UNHOLD = """
UPDATE billing_account a SET held = a.held - t.taken FROM unnest(%s::bigint[], %s::bigint[]) AS t(account_id, taken)
WHERE a.id = t.account_id
"""


def usage_post(
    *,
    source: str,
    customer: Party,
    provider: Party,
    amount_micro: int,
    fee_bps: int,
    lines: Sequence[EarningInput],
    effective_at: datetime,
    now: datetime,
    hold_source: str | None = None,
) -> Transfer | None:
    """Charge a customer and credit a provider less the fee. Returns None for 0 micro-USDC.

    Usage that happened is always charged: the customer's balance may go below zero. With ``hold_source`` the charge takes
    from that hold first. Same source, same request: the earlier transfer. Raises SourceTaken, Invalid.
    """
    item = UsageInput(source, customer, provider, amount_micro, fee_bps, lines, effective_at, hold_source)
    (answer,) = _post_batch([item], now)
    if answer.error is not None:
        raise answer.error
    return None if answer.transfer_id is None else Transfer.objects.get(pk=answer.transfer_id)


def usage_post_many(*, items: Sequence[UsageInput], now: datetime) -> list[UsageAnswer]:
    """Charge many rentals, in transactions of at most 50; one answer per item, in their order.

    One that cannot be charged is isolated: its answer carries the error, the others are posted.
    """
    answers: list[UsageAnswer] = []
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        try:
            answers += _post_batch(batch, now)
        except (DatabaseError, DomainError):
            answers += [_post_alone(item, now) for item in batch]
    return answers


def _post_alone(item: UsageInput, now: datetime) -> UsageAnswer:
    try:
        return _post_batch([item], now)[0]
    except (DatabaseError, DomainError) as error:
        log.exception("usage_not_charged", source=item.source)
        return UsageAnswer(item.source, None, False, error)


def _post_batch(items: Sequence[UsageInput], now: datetime) -> list[UsageAnswer]:
    chargeable = [item for item in items if _checked(item).amount_micro]
    books = _Books.of(chargeable, now)
    with transaction.atomic():
        posted = transfers_post_many(items=[books.transfer(item) for item in chargeable], now=now)
        fresh = {answer.source for answer in posted if answer.created}
        # Of two items with one source the first was posted; the other only repeats it.
        _capture(list({item.source: item for item in reversed(chargeable) if item.source in fresh}.values()), books)
    in_order = iter(posted)
    return [_usage_answer(item, next(in_order) if item.amount_micro else None) for item in items]


def _usage_answer(item: UsageInput, posted: Posted | None) -> UsageAnswer:
    if posted is None:
        return UsageAnswer(item.source, None, False)
    return UsageAnswer(item.source, posted.transfer_id, posted.created, posted.refused)


def _checked(item: UsageInput) -> UsageInput:
    if item.amount_micro < 0:
        raise Invalid.field("amount_micro", found=item.amount_micro, allowed="0 or more")
    if not item.lines:
        raise Invalid.field("lines", found="none", allowed="one per GPU")
    return item


@dataclass(frozen=True, slots=True)
class _Books:
    """What a batch needs to know: its accounts, and how long earnings stay pending. A fixed number of queries."""

    accounts: dict[tuple[UUID | None, str], Account]
    now: datetime
    new_for: timedelta
    wait: timedelta
    wait_when_new: timedelta

    @classmethod
    def of(cls, items: Sequence[UsageInput], now: datetime) -> _Books:
        wanted: list[tuple[Party | None, str]] = [(None, Account.Kind.PLATFORM_FEE.value)]
        wanted += [(item.customer, Account.Kind.CUSTOMER.value) for item in items]
        wanted += [(item.provider, Account.Kind.PROVIDER_PENDING.value) for item in items]
        names = ("new_provider_seconds", "maturing_seconds", "maturing_new_provider_seconds")
        return cls(accounts_open(wanted), now, *(timedelta(seconds=policy_value(name, now)) for name in names))

    def customer(self, item: UsageInput) -> Account:
        return self.accounts[item.customer.pk, Account.Kind.CUSTOMER.value]

    def transfer(self, item: UsageInput) -> TransferInput:
        provider_micro, fee_micro = fee_split(item.amount_micro, fee_bps=item.fee_bps)
        pending = self.accounts[item.provider.pk, Account.Kind.PROVIDER_PENDING.value]
        fees = self.accounts[None, Account.Kind.PLATFORM_FEE.value]
        legs = [(self.customer(item).pk, -item.amount_micro), (pending.pk, provider_micro), (fees.pk, fee_micro)]
        # A provider is new from the first earning on, which is when the account was opened.
        is_new = self.now < pending.created_at + self.new_for
        matures_at = item.effective_at + (self.wait_when_new if is_new else self.wait)
        lines = [
            Line(item.provider, line.gpu_id, line.gpu_model, line.rental_id, amount, matures_at)
            for line, amount in zip(item.lines, line_split(provider_micro, gpus=len(item.lines)), strict=True)
            if amount
        ]
        nonzero = [(account, amount) for account, amount in legs if amount]
        return TransferInput(item.source, Transfer.Kind.USAGE, nonzero, item.effective_at, lines)


def _capture(items: Sequence[UsageInput], books: _Books) -> None:
    """Take the charges out of their holds. The accounts' rows are locked by the posting already: account, then hold."""
    wanted: Counter[tuple[str, int]] = Counter()
    for item in items:
        if item.hold_source is not None:
            wanted[item.hold_source, books.customer(item).pk] += item.amount_micro
    if not wanted:
        return
    sources, accounts = zip(*wanted, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(_CAPTURE, [list(sources), list(accounts), list(wanted.values())])
        taken: Counter[int] = Counter()
        for account_id, amount in cursor.fetchall():
            taken[account_id] += amount
        cursor.execute(_UNHOLD, [list(taken), list(taken.values())])
