"""Service credits: a provider's fault gives charges back, provider and fee legs in proportion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction

from accounts.models import Party
from billing.models import Account, CreditedUsage, EarningLine, Posting, Transfer
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import Line, SourceTaken, transfer_post
from core.errors import Conflict, Invalid, NotFound
from core.locks import lock_rows
from core.money import split_micro


@dataclass(frozen=True, slots=True)
class _Charged:
    """What some charges were in all, and between whom; no ``provider`` where the fee took all of it."""

    customer: Party
    provider: Party | None
    provider_micro: int
    fee_micro: int

    @property
    def amount_micro(self) -> int:
        return self.provider_micro + self.fee_micro


def service_credit_post(*, source: str, of_sources: list[str], amount_micro: int, now: datetime) -> Transfer:
    """Give ``amount_micro`` of the named usage back to its customer.

    Provider and platform bear it in the proportion in which they shared the charges; every GPU's line bears its part. What
    had matured is taken from payable (which may fall below zero), the rest from pending. Same source, same amount: the
    earlier transfer. Raises Invalid (more than was charged, or charges between different people), NotFound (no such usage),
    Conflict (a charge was credited before), SourceTaken.
    """
    earlier = Transfer.objects.filter(source=source).first()
    if earlier is not None:
        return _replay(earlier, amount_micro)
    charges = list(Transfer.objects.filter(source__in=of_sources, kind=Transfer.Kind.USAGE).order_by("source"))
    if not charges or len(charges) != len(set(of_sources)):
        raise NotFound("There is no such usage to give back.")
    charged = _charged(charges)
    if not 0 < amount_micro <= charged.amount_micro:
        raise Invalid.field("amount_micro", found=amount_micro, allowed=f"1 to {charged.amount_micro}")
    try:
        with transaction.atomic():
            credit = _post(source, charges, charged, amount_micro, now)
            CreditedUsage.objects.bulk_create(CreditedUsage(usage=charge, credit=credit) for charge in charges)
    except IntegrityError as error:
        raise Conflict("One of these charges was given back before.") from error
    return credit


def _replay(earlier: Transfer, amount_micro: int) -> Transfer:
    given = Posting.objects.get(transfer=earlier, account__kind=Account.Kind.CUSTOMER).amount
    if earlier.kind != Transfer.Kind.SERVICE_CREDIT or given != amount_micro:
        raise SourceTaken(f"{earlier.source} was posted before with another content.")
    return earlier


def _charged(charges: Sequence[Transfer]) -> _Charged:
    legs = list(Posting.objects.filter(transfer__in=charges).select_related("account__owner"))
    customers = {leg.account.owner for leg in legs if leg.account.kind == Account.Kind.CUSTOMER}
    providers = {leg.account.owner for leg in legs if leg.account.kind == Account.Kind.PROVIDER_PENDING}
    if len(customers) != 1 or len(providers) > 1:
        raise Invalid.field("of_sources", found="charges between several people", allowed="one customer, one provider")
    (customer,), provider = customers, next(iter(providers), None)
    if customer is None:
        raise AssertionError("a customer's account has an owner")
    fee = sum(leg.amount for leg in legs if leg.account.kind == Account.Kind.PLATFORM_FEE)
    share = sum(leg.amount for leg in legs if leg.account.kind == Account.Kind.PROVIDER_PENDING)
    return _Charged(customer, provider, share, fee)


def _post(source: str, charges: Sequence[Transfer], charged: _Charged, amount_micro: int, now: datetime) -> Transfer:
    provider_micro, fee_micro = split_micro(amount_micro, [charged.provider_micro, charged.fee_micro])
    # Locked, so that none of them matures between our look at it and our posting.
    originals = lock_rows(EarningLine.objects.filter(transfer__in=charges))
    lines = _back(charged.provider, originals, provider_micro, now)
    matured = -sum(line.amount_micro for line in lines if line.matured_at is not None)
    by_kind = [
        (Account.Kind.CUSTOMER, charged.customer, amount_micro),
        (Account.Kind.PROVIDER_PENDING, charged.provider, matured - provider_micro),
        (Account.Kind.PROVIDER_PAYABLE, charged.provider, -matured),
        (Account.Kind.PLATFORM_FEE, None, -fee_micro),
    ]
    return transfer_post(
        source=source,
        kind=Transfer.Kind.SERVICE_CREDIT,
        legs=[(account_open(kind=kind, owner=owner).pk, amount) for kind, owner, amount in by_kind if amount],
        effective_at=now,
        now=now,
        lines=lines,
    )


def _back(provider: Party | None, originals: Sequence[EarningLine], provider_micro: int, now: datetime) -> list[Line]:
    if not provider_micro or provider is None:
        return []
    parts = split_micro(provider_micro, [line.amount_micro for line in originals])
    return [
        Line(
            provider=provider,
            gpu_id=line.gpu_id,
            gpu_model=line.gpu_model,
            rental_id=line.rental_id,
            amount_micro=-part,
            matures_at=line.matures_at,
            matured_at=None if line.matured_at is None else now,
        )
        for line, part in zip(originals, parts, strict=True)
        if part
    ]
