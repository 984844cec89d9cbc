"""The lines of statements, straight from the ledger: what moved a balance between two marks, grouped for people to read.

A payout statement covers the postings on the payable balance after the previous payout was reserved and before this one
was; a monthly one what moved a customer's balance in the month, and what came too late for the statement before. Both are
partitions of the postings: nothing is stated twice, nothing is left out, so the lines add up by construction.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Max, Min, Sum

from billing.euros import format_reference
from billing.models import USDC, Account, Document, Payout, Posting, Transfer
from billing.periods import day_starts
from billing.selectors.history import adjustment_reason
from core.money import format_cents

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
Line = dict[str, Any]
"""``kind`` and ``amount_micro`` always; else what is known: see docs/money.md, Documents."""

# Fees are posted per charge, not per GPU. A line's share is the step of floor(fee · so far / all) over the lines of its
# transfer: the shares of a transfer add up to its fee, wherever its lines are stated.
_EARNINGS = """
WITH moved AS (SELECT transfer_id FROM billing_posting WHERE account_id = %(account)s AND id > %(after)s AND id < %(before)s),
stated AS (
    SELECT l.id, l.transfer_id FROM billing_earningline l JOIN moved m ON m.transfer_id = l.matured_by_id
    UNION ALL
    SELECT l.id, l.transfer_id FROM billing_earningline l WHERE l.provider_id = %(party)s AND l.matured_by_id IS NULL
        AND l.matured_at >= %(since)s AND l.matured_at < %(until)s
),
fees AS (
    SELECT p.transfer_id, sum(p.amount) AS fee FROM billing_posting p JOIN billing_account a ON a.id = p.account_id
    WHERE a.kind = 'platform_fee' AND p.transfer_id IN (SELECT transfer_id FROM stated) GROUP BY p.transfer_id
),
shares AS (
    SELECT l.*, t.kind, coalesce(f.fee, 0) AS fee,
        sum(abs(l.amount_micro)) OVER (PARTITION BY l.transfer_id ORDER BY l.id) AS so_far,
        sum(abs(l.amount_micro)) OVER (PARTITION BY l.transfer_id) AS whole
    FROM billing_earningline l JOIN billing_transfer t ON t.id = l.transfer_id LEFT JOIN fees f ON f.transfer_id = t.id
    WHERE l.transfer_id IN (SELECT transfer_id FROM stated)
)
SELECT kind, rental_id, gpu_id, min(gpu_model), min(earned_at), max(earned_at), sum(amount_micro)::bigint,
    sum(sign(fee) * (div(abs(fee) * so_far, whole) - div(abs(fee) * (so_far - abs(amount_micro)), whole)))::bigint
FROM shares WHERE id IN (SELECT id FROM stated)
GROUP BY kind, rental_id, gpu_id ORDER BY min(earned_at), rental_id, gpu_id, kind
"""
_EARNED = (Transfer.Kind.EARNINGS_MATURED, Transfer.Kind.SERVICE_CREDIT, Transfer.Kind.DISPUTE)

_MONTH = """
SELECT t.kind, l.rental_id, min(l.gpu_model), max(l.gpus), min(t.effective_at), max(t.effective_at), sum(p.amount)::bigint,
    min(coalesce(d.signature, c.signature)), min(t.source), min(j.reason)
FROM billing_posting p JOIN billing_transfer t ON t.id = p.transfer_id
LEFT JOIN billing_deposit d ON d.transfer_id = t.id LEFT JOIN billing_deposit c ON c.claim_transfer_id = t.id
LEFT JOIN billing_adjustment j ON j.transfer_id = t.id
LEFT JOIN LATERAL (
    SELECT e.rental_id, min(e.gpu_model) AS gpu_model, count(DISTINCT e.gpu_id) AS gpus FROM billing_earningline e
    WHERE e.transfer_id = t.id GROUP BY e.rental_id ORDER BY e.rental_id LIMIT 1
) l ON true
WHERE p.account_id = %(account)s AND t.effective_at < %(until)s AND (t.effective_at >= %(since)s OR p.id > %(after)s)
GROUP BY t.kind, l.rental_id, CASE WHEN l.rental_id IS NULL THEN t.id END
ORDER BY min(t.effective_at), min(p.id)
"""


@dataclass(frozen=True, slots=True)
class PayoutLines:
    """``brought_micro + Σ moves = payout + carried_micro``; ``lines`` says all of it and adds up to the payout."""

    lines: list[Line]
    brought_micro: int
    carried_micro: int
    since: datetime | None
    until: datetime


def payout_lines(payout: Payout) -> PayoutLines:
    """What made up the payable balance out of which this payout was reserved."""
    account = Account.objects.get(owner=payout.party, kind=Account.Kind.PROVIDER_PAYABLE, asset=USDC)
    postings = Posting.objects.filter(account=account)
    reserve = postings.select_related("transfer").get(transfer=payout.reserve_transfer_id)
    earlier = postings.filter(transfer__kind=Transfer.Kind.PAYOUT_RESERVED, pk__lt=reserve.pk)
    previous = earlier.select_related("transfer").order_by("-pk").first()
    after = previous.pk if previous else 0
    brought = _sum(postings.filter(pk__lte=after))
    since, until = (previous.transfer.effective_at if previous else None), reserve.transfer.effective_at
    bounds: dict[str, Any] = {"account": account.pk, "after": after, "before": reserve.pk, "party": payout.party_id}
    lines = _earnings({**bounds, "since": since or BEGINNING, "until": until})
    others = postings.filter(pk__gt=after, pk__lt=reserve.pk).exclude(transfer__kind__in=_EARNED)
    lines += [_other(each) for each in others.select_related("transfer__adjustment").order_by("pk")]
    carried = brought + sum(line["amount_micro"] for line in lines) - payout.amount_micro
    if brought:
        lines.insert(0, {"kind": "brought_forward", "amount_micro": brought})
    if carried:
        lines.append({"kind": "carried_forward", "amount_micro": -carried})
    return PayoutLines(lines, brought, carried, since, until)


def bank_facts(payout: Payout) -> dict[str, str]:
    """What a bank payout's statement says besides: the sum, its rate, the bank reference; a wallet: nothing."""
    rate, line = payout.eur_rate, payout.bank_lines.filter(state__in=("settled", "returned")).first()
    if rate is None or payout.amount_cents is None or line is None:
        return {}
    published = f"{rate.published_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    margin = f"{rate.margin_bps / 100:g} %"
    return {
        "bank_amount": f"{format_cents(payout.amount_cents)} {payout.currency}",
        "bank_rate": f"1 EUR = {format_reference(rate.reference_micro)} USD − {margin} ({rate.source}, {published})",
        "bank_reference": line.end_to_end_id,
    }


def _earnings(bounds: dict[str, Any]) -> list[Line]:
    with connection.cursor() as cursor:
        cursor.execute(_EARNINGS, bounds)
        return [
            {
                "kind": "earnings" if kind == Transfer.Kind.USAGE else kind,
                "rental": str(rental),
                "gpu": str(gpu),
                "model": model,
                "from": first.isoformat(),
                "until": last.isoformat(),
                "gross_micro": net + fee,
                "fee_micro": fee,
                "amount_micro": net,
            }
            for kind, rental, gpu, model, first, last, net, fee in cursor.fetchall()
        ]


def _other(posting: Posting) -> Line:
    at = posting.transfer.effective_at.isoformat()
    reference = posting.transfer.source
    kind = posting.transfer.kind
    line: Line = {"kind": kind, "from": at, "until": at, "reference": reference, "amount_micro": posting.amount}
    reason = adjustment_reason(posting.transfer)
    return line | {"name": reason} if reason else line


def month_lines(account: Account, start: date, end: date, previous: Document | None) -> list[Line]:
    """What moved a customer's balance in [start, end), and before it but after ``previous`` was issued."""
    bounds = {
        "account": account.pk,
        "since": day_starts(start),
        "until": day_starts(end),
        # Without an earlier statement everything before the month is the opening balance.
        "after": previous.facts["through"] if previous else 2**62,
    }
    with connection.cursor() as cursor:
        cursor.execute(_MONTH, bounds)
        return [_moved(*row) for row in cursor.fetchall()]


def _moved(
    kind: str,
    rental: UUID | None,
    model: str | None,
    gpus: int | None,
    first: datetime,
    last: datetime,
    amount: int,
    signature: str | None,
    source: str,
    reason: str | None,
) -> Line:
    line: Line = {"kind": kind, "from": first.isoformat(), "until": last.isoformat(), "amount_micro": amount}
    if rental is not None:
        return line | {"rental": str(rental), "model": model, "gpus": gpus}
    line |= {"reference": signature or source}
    return line | {"name": reason} if reason else line


def balance_before(account: Account, at: date) -> int:
    """The sum of what was posted with an effective time before a UTC day."""
    return _sum(Posting.objects.filter(account=account, transfer__effective_at__lt=day_starts(at)))


def posting_last(account: Account) -> int:
    return Posting.objects.filter(account=account).aggregate(last=Max("pk"))["last"] or 0


def first_moved_at(account: Account) -> datetime | None:
    """When the balance first moved; None while it never did."""
    found: datetime | None = Posting.objects.filter(account=account).aggregate(at=Min("transfer__effective_at"))["at"]
    return found


def _sum(postings: Any) -> int:
    return int(postings.aggregate(total=Sum("amount"))["total"] or 0)
