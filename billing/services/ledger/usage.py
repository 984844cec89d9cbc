"""Usage and service credits: customer → provider pending + platform fee, per GPU, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import DatabaseError, connection, transaction

from accounts.models import Party
from billing.fees import fee_split, line_split
from billing.models import Account, Hold, Transfer
from billing.selectors.policies import policy_value
from billing.services.ledger.accounts import account_open
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


_CAPTURE = """
UPDATE billing_hold SET amount_micro = amount_micro - LEAST(amount_micro, %s),
    captured_micro = captured_micro + LEAST(amount_micro, %s)
WHERE source = %s AND state = 'open' AND account_id = %s RETURNING captured_micro
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
    maturing: dict[UUID, timedelta] = {}
    transfers = [_transfer(item, now, maturing) for item in chargeable]
    with transaction.atomic():
        posted = transfers_post_many(items=transfers, now=now)
        done: set[str] = set()
        for item, answer in sorted(zip(chargeable, posted, strict=True), key=lambda pair: pair[0].hold_source or ""):
            if answer.created and item.hold_source is not None and item.source not in done:
                done.add(item.source)
                _capture(item)
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


def _transfer(item: UsageInput, now: datetime, maturing: dict[UUID, timedelta]) -> TransferInput:
    provider_micro, fee_micro = fee_split(item.amount_micro, fee_bps=item.fee_bps)
    pending = account_open(kind=Account.Kind.PROVIDER_PENDING, owner=item.provider)
    legs = [(account_open(kind=Account.Kind.CUSTOMER, owner=item.customer).pk, -item.amount_micro)]
    if provider_micro:
        legs.append((pending.pk, provider_micro))
    if fee_micro:
        legs.append((account_open(kind=Account.Kind.PLATFORM_FEE).pk, fee_micro))
    wait = maturing.setdefault(item.provider.pk, _maturing(pending, now))
    lines = [
        Line(item.provider, line.gpu_id, line.gpu_model, line.rental_id, amount, item.effective_at + wait)
        for line, amount in zip(item.lines, line_split(provider_micro, gpus=len(item.lines)), strict=True)
        if amount
    ]
    return TransferInput(item.source, Transfer.Kind.USAGE, legs, item.effective_at, lines)


def _maturing(pending: Account, now: datetime) -> timedelta:
    """How long this provider's earnings stay pending; a provider is new from the first earning on."""
    new_for = timedelta(seconds=policy_value("new_provider_seconds", now))
    is_new = now < pending.created_at + new_for
    name = "maturing_new_provider_seconds" if is_new else "maturing_seconds"
    return timedelta(seconds=policy_value(name, now))


def _capture(item: UsageInput) -> None:
    """Take the charge out of its hold. The account's row is locked by the posting already: account, then hold."""
    hold = Hold.objects.filter(source=item.hold_source, state=Hold.State.OPEN, account__owner=item.customer).first()
    if hold is None:
        return
    taken = min(hold.amount_micro, item.amount_micro)
    with connection.cursor() as cursor:
        cursor.execute(_CAPTURE, [taken, taken, item.hold_source, hold.account_id])
        cursor.execute("UPDATE billing_account SET held = held - %s WHERE id = %s", [taken, hold.account_id])
