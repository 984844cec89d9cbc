"""Giving charges back after a dispute: provider and fee legs in proportion, out of what a service credit has left of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from accounts.models import Party
from billing.models import Account, CreditedUsage, EarningLine, Posting, Transfer
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import Line, SourceTaken, transfer_post
from core.errors import Invalid, NotFound
from core.locks import lock_rows
from core.money import split_micro


@dataclass(frozen=True, slots=True)
class _Left:
    """What charges and the credits on them come to: ``lines`` are the charges' own, ``weights`` what is left of each."""

    customer: Party
    amount_micro: int
    lines: Sequence[EarningLine]
    weights: Sequence[int]

    @property
    def provider_micro(self) -> int:
        return sum(self.weights)


def usage_reverse(*, source: str, of_sources: Sequence[str], amount_micro: int, now: datetime) -> Transfer:
    """Give ``amount_micro`` of the named usage back to its customer, whatever became of the provider's part of it.

    Provider and platform bear it in the proportion of what is left of the charges after service credits; every GPU's line
    bears its part. What is pending is taken from pending, what has matured from payable, which may fall below zero: a debt
    that later earnings pay back. Same source, same amount: the earlier transfer. Raises Invalid (more than is left, or charges
    of several customers), NotFound (no such usage), SourceTaken.
    """
    earlier = Transfer.objects.filter(source=source).first()
    if earlier is not None:
        return _replay(earlier, amount_micro)
    with transaction.atomic():
        charges = list(Transfer.objects.filter(source__in=of_sources, kind=Transfer.Kind.USAGE).order_by("source"))
        if not charges or len(charges) != len(set(of_sources)):
            raise NotFound("There is no such usage to give back.")
        left = _left(charges)
        if not 0 < amount_micro <= left.amount_micro:
            raise Invalid.field("amount_micro", found=amount_micro, allowed=f"1 to {left.amount_micro}")
        reversal = _post(source, left, amount_micro, now)
        # No service credit may follow: it would give the same money back again.
        CreditedUsage.objects.bulk_create(
            [CreditedUsage(usage=charge, credit=reversal) for charge in charges], ignore_conflicts=True
        )
    return reversal


def _replay(earlier: Transfer, amount_micro: int) -> Transfer:
    given = Posting.objects.get(transfer=earlier, account__kind=Account.Kind.CUSTOMER).amount
    if earlier.kind != Transfer.Kind.DISPUTE or given != amount_micro:
        raise SourceTaken(f"{earlier.source} was posted before with another content.")
    return earlier


def _left(charges: Sequence[Transfer]) -> _Left:
    credited = CreditedUsage.objects.filter(usage__in=charges).values_list("credit", flat=True)
    moved = [charge.pk for charge in charges] + list(credited)
    legs = Posting.objects.filter(transfer__in=moved, account__kind=Account.Kind.CUSTOMER)
    customers = {leg.account.owner for leg in legs.select_related("account__owner")}
    if len(customers) != 1:
        raise Invalid.field("of_sources", found="charges of several customers", allowed="one customer's")
    (customer,) = customers
    if customer is None:
        raise AssertionError("a customer's account has an owner")
    # Locked, so that none of them matures between our look at it and our posting.
    lines = lock_rows(EarningLine.objects.filter(transfer__in=moved))
    own = [line for line in lines if line.amount_micro > 0]
    # A credit's line has the GPU and the maturity of the line that it takes from.
    taken = Counter[tuple[UUID, datetime]]()
    for line in lines:
        if line.amount_micro < 0:
            taken[line.gpu_id, line.matures_at] -= line.amount_micro
    weights = []
    for line in own:
        key = (line.gpu_id, line.matures_at)
        gone = min(taken[key], line.amount_micro)
        taken[key] -= gone
        weights.append(line.amount_micro - gone)
    amount = -int(legs.aggregate(total=Sum("amount"))["total"] or 0)
    return _Left(customer, amount, own, weights)


def _post(source: str, left: _Left, amount_micro: int, now: datetime) -> Transfer:
    fee_left = left.amount_micro - left.provider_micro
    provider_micro, fee_micro = split_micro(amount_micro, [left.provider_micro, fee_left])
    parts = split_micro(provider_micro, left.weights) if provider_micro else [0] * len(left.lines)
    lines = [
        Line(
            provider=line.provider,
            gpu_id=line.gpu_id,
            gpu_model=line.gpu_model,
            rental_id=line.rental_id,
            amount_micro=-part,
            matures_at=line.matures_at,
            matured_at=None if line.matured_at is None else now,
        )
        for line, part in zip(left.lines, parts, strict=True)
        if part
    ]
    provider = lines[0].provider if lines else None
    matured = -sum(line.amount_micro for line in lines if line.matured_at is not None)
    by_kind = [
        (Account.Kind.CUSTOMER, left.customer, amount_micro),
        (Account.Kind.PROVIDER_PENDING, provider, matured - provider_micro),
        (Account.Kind.PROVIDER_PAYABLE, provider, -matured),
        (Account.Kind.PLATFORM_FEE, None, -fee_micro),
    ]
    return transfer_post(
        source=source,
        kind=Transfer.Kind.DISPUTE,
        legs=[(account_open(kind=kind, owner=owner).pk, amount) for kind, owner, amount in by_kind if amount],
        effective_at=now,
        now=now,
        lines=lines,
    )
