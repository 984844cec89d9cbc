from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import OuterRef, Prefetch, Q, Subquery, Sum
from django.utils import formats, timezone
from django.utils.translation import gettext as _

from accounts.models import Party
from billing.models import (
    Account,
    BankLine,
    ChainMatch,
    Cycle,
    Destination,
    Document,
    Payout,
    PayoutAttempt,
    PayoutCycle,
    PayoutRun,
    PayoutSwitch,
    Posting,
    Purpose,
    Rail,
    Transfer,
)
from billing.periods import next_pay_day, period_due
from billing.rails import RAILS
from billing.rails.base import masked
from billing.selectors.balances import payable_of, pending_of
from billing.selectors.earnings import frozen_of
from billing.selectors.freezes import freeze_of, hold_of
from billing.selectors.policies import policy_value
from core.cursors import cursor_decode, cursor_encode
from core.money import format_usdc

PAGE = 25
SCOPE = "billing:payouts"


@dataclass(frozen=True, slots=True)
class PayoutRow:
    """One payout as its payee sees it. ``signature`` and ``link`` (wallet) only once it is final.

    A bank payout has ``amount_cents`` in ``currency``, the end-to-end ``reference`` that stands on the payee's statement,
    ``expected_on``, the business day on which the bank books it, and ``returned`` when it came back.
    """

    id: object
    period_start: date
    period_end: date
    amount_micro: int
    address: str
    status: str
    created_at: datetime
    settled_at: datetime | None
    signature: str
    link: str
    statement_id: UUID | None
    """Its statement; None until it is settled and a minute has passed."""
    rail: str = Rail.USDC.value
    amount_cents: int | None = None
    currency: str = ""
    reference: str = ""
    expected_on: date | None = None
    returned: bool = False
    fee_micro: int = 0
    """What a withdrawal cost on top of its amount."""

    @property
    def period_last(self) -> date:
        """The last day of the period."""
        return self.period_end - timedelta(days=1)


def payouts_of(party: Party, *, limit: int = 50) -> list[PayoutRow]:
    return payouts_page(party, limit=limit)[0]


def payouts_page(
    party: Party, *, cursor: str = "", limit: int = PAGE, withdrawals: bool = False
) -> tuple[list[PayoutRow], str | None]:
    """A page of a party's payouts of earnings, or of its withdrawals, the newest first, and the next page's cursor.

    Raises Invalid (field cursor).
    """
    settled = PayoutAttempt.objects.filter(state=PayoutAttempt.State.SETTLED)
    statements = Document.objects.filter(payout=OuterRef("pk"))
    rows = (
        Payout.objects.filter(party=party, request_key__isnull=not withdrawals)
        .select_related("run")
        .annotate(statement_key=Subquery(statements.values("pk")[:1]))
        .prefetch_related(
            Prefetch("attempts", queryset=settled, to_attr="settled"),
            Prefetch("bank_lines", queryset=BankLine.objects.select_related("file").order_by("-n"), to_attr="lines"),
        )
        .order_by("-created_at", "-pk")
    )
    if cursor:
        at, last = cursor_decode(cursor, scope=SCOPE)
        moment = datetime.fromisoformat(str(at))
        rows = rows.filter(Q(created_at__lt=moment) | Q(created_at=moment, pk__lt=last))
    found = list(rows[: limit + 1])
    page = found[:limit]
    following = None
    if len(found) > limit:
        following = cursor_encode([page[-1].created_at.isoformat(), str(page[-1].pk)], scope=SCOPE)
    return [_row(payout) for payout in page], following


def _row(payout: Payout) -> PayoutRow:
    settled: list[PayoutAttempt] = payout.settled  # type: ignore[attr-defined]
    signature = settled[0].signature if settled else ""
    lines: list[BankLine] = payout.lines  # type: ignore[attr-defined]
    line = lines[0] if lines else None
    return PayoutRow(
        id=payout.pk,
        period_start=payout.run.period_start,
        period_end=payout.run.period_end,
        amount_micro=payout.amount_micro,
        address=destination_shown(payout),
        status=payout.status,
        created_at=payout.created_at,
        settled_at=payout.settled_at,
        signature=signature,
        link=explorer_link(signature),
        statement_id=payout.statement_key,  # type: ignore[attr-defined]
        rail=payout.rail,
        amount_cents=payout.amount_cents,
        currency=payout.currency,
        reference=line.end_to_end_id if line else "",
        expected_on=line.file.execution_date if line else None,
        returned=line is not None and line.state == BankLine.State.RETURNED,
        fee_micro=payout.fee_micro,
    )


def explorer_link(signature: str) -> str:
    """Where a transaction can be looked at; empty when there is no such place."""
    template = settings.SOLANA_EXPLORER_URL
    return template.replace("{signature}", signature) if template and signature else ""


def cycle_of(party: Party, on: date) -> str:
    """How often the party is paid on this day; a period belongs to the cycle of its last day."""
    row = PayoutCycle.objects.filter(party=party, valid_from__lte=on).order_by("-valid_from").first()
    return Cycle.WEEKLY.value if row is None else row.kind


def cycles_of(parties: Sequence[Party], on: date) -> dict[UUID, str]:
    """``cycle_of`` each of them, in one query."""
    rows = PayoutCycle.objects.filter(party__in=parties, valid_from__lte=on).order_by("valid_from")
    known = dict(rows.values_list("party_id", "kind"))  # the latest row of each comes last and stays
    return {party.pk: known.get(party.pk, Cycle.WEEKLY.value) for party in parties}


def destination_of(party: Party, purpose: str = Purpose.PAYOUT) -> Destination | None:
    return Destination.objects.filter(party=party, purpose=purpose, state=Destination.State.ACTIVE).first()


def destination_shown(where: Destination | Payout) -> str:
    """A wallet's address, or of a bank account what is needed to recognise it."""
    return masked(where.address) if where.rail == Rail.BANK else where.address


def payouts_frozen() -> PayoutSwitch | None:
    """The switch that stops payouts, or None while they run."""
    latest = PayoutSwitch.objects.order_by("-id").first()
    return latest if latest is not None and latest.frozen else None


def minimum_micro(kind: str, at: datetime, *, rail: str = Rail.USDC) -> int:
    """The least that is paid out; a bank account's monthly minimum is its weekly one."""
    monthly_by_bank = kind == Cycle.MONTHLY and rail == Rail.BANK
    return policy_value("payout_minimum_bank_monthly_micro" if monthly_by_bank else f"payout_minimum_{kind}_micro", at)


def match_missing() -> bool:
    """Whether the books were restored, and no look at the chain since then left nothing open."""
    last_thaw = PayoutSwitch.objects.filter(frozen=False).order_by("-id").first()
    restores = PayoutSwitch.objects.filter(restored=True, frozen=True, id__gt=0 if last_thaw is None else last_thaw.pk)
    latest = restores.order_by("-id").first()
    return latest is not None and not ChainMatch.objects.filter(created_at__gt=latest.at, open=0).exists()


def payout_most_micro(at: datetime, *, rail: str = Rail.USDC) -> int:
    """The most that one payout is planned with: more would never be released, or refused by the signer on pay day."""
    release = policy_value("release_limit_micro", at)
    return release if rail == Rail.BANK else min(release, policy_value("payout_limit_micro", at))


def minimum_of(party: Party, at: datetime) -> int:
    """The least that this party is paid, by its cycle and where it is paid to."""
    destination = destination_of(party)
    return minimum_micro(cycle_of(party, at.date()), at, rail=Rail.USDC if destination is None else destination.rail)


def payable_before(payable: Account, end: datetime) -> int:
    """What of a payable balance had matured before ``end``: the balance less what matured since."""
    since = Posting.objects.filter(
        account=payable, transfer__kind=Transfer.Kind.EARNINGS_MATURED, transfer__effective_at__gte=end
    )
    return payable.balance - payable.held - max(0, since.aggregate(total=Sum("amount"))["total"] or 0)


def in_flight_total() -> int:
    """What all open payouts still have to move from the hot wallet."""
    leaving = Payout.objects.filter(status__in=Payout.OPEN, rail=Rail.USDC)
    return int(leaving.aggregate(total=Sum("amount_micro"))["total"] or 0)


def next_payout_on(party: Party, now: datetime) -> date:
    """The next pay day; of a bank account the first day from then on that its rail moves money."""
    today = now.date()
    kind, destination = cycle_of(party, today), destination_of(party)
    if destination is None or destination.rail == Rail.USDC:
        return next_pay_day(kind, today)
    rail = RAILS[destination.scheme]
    due = rail.business_day(period_due(kind, today).pay_day)
    return due if due > today else rail.business_day(next_pay_day(kind, today))


def why_not_yet(party: Party, now: datetime) -> list[str]:
    """What stands between a party's payable balance and its next payout, in the viewer's words; empty: nothing."""
    reasons = []
    destination = destination_of(party)
    rail = Rail.USDC if destination is None else destination.rail
    frozen = frozen_of(party)
    payable, minimum = payable_of(party), minimum_micro(cycle_of(party, now.date()), now, rail=rail)
    payable -= frozen.payable_micro
    if payable < 0:
        reasons.append(
            _("A debt of %(amount)s USDC is paid back from your next earnings.") % {"amount": format_usdc(-payable)}
        )
    elif payable < minimum:
        words = {"payable": format_usdc(payable), "minimum": format_usdc(minimum)}
        reasons.append(_("Below the minimum: %(payable)s of %(minimum)s USDC.") % words)
    if (disputed := frozen.pending_micro + frozen.payable_micro) > 0:
        reasons.append(_("%(amount)s USDC are frozen until a dispute is decided.") % {"amount": format_usdc(disputed)})
    if (pending := pending_of(party) - frozen.pending_micro) > 0 and payable < minimum:
        reasons.append(_("%(amount)s USDC are still pending.") % {"amount": format_usdc(pending)})
    if payable > (most := payout_most_micro(now, rail=rail)):
        words = {"most": format_usdc(most)}
        reasons.append(_("At most %(most)s USDC are paid at once; the rest follows with the next runs.") % words)
    if freeze_of(party) is not None:
        reasons.append(
            _("Payouts are frozen, because somebody said that a change of destination was not theirs. Write to us.")
        )
    if hold_of(party) is not None:
        reasons.append(_("Payouts of this account are held by the operator; what you earned stays yours."))
    if destination is None:
        reasons.append(_("No payout destination is set: neither a wallet nor a bank account."))
    elif destination.usable_from > now:
        when = formats.date_format(timezone.localtime(destination.usable_from), "DATETIME_FORMAT")
        sentence = _("The new payout wallet can be used from %(when)s on.")
        if rail == Rail.BANK:
            sentence = _("The new bank account can be used from %(when)s on.")
        reasons.append(sentence % {"when": when})
    elif rail == Rail.BANK and payable >= minimum and PayoutRun.objects.filter(bank_planned_at__isnull=True).exists():
        reasons.append(_("Bank payouts wait for the euro rate of the day."))
    if party.status != Party.Status.ACTIVE:
        reasons.append(_("The account is suspended."))
    if payouts_frozen() is not None:
        reasons.append(_("Payouts are paused for all while we check something."))
    return reasons + _why_reserved_waits(party)


def _why_reserved_waits(party: Party) -> list[str]:
    """What stands between reserved payouts and the chain or the bank; one on its way needs no explanation."""
    words = {
        Payout.Status.AWAITING_RELEASE.value: _(
            "%(amount)s USDC are reserved and wait for two of our people to release them."
        ),
        Payout.Status.BLOCKED.value: _("A payout of %(amount)s USDC is held up; we look at it again every hour."),
        Payout.Status.UNKNOWN.value: _(
            "What became of a payout of %(amount)s USDC is being found out; it is never sent twice."
        ),
    }
    reasons = []
    earnings = Payout.objects.filter(party=party, request_key__isnull=True, status__in=words)
    for payout in earnings.select_related("run").order_by("pk"):
        reasons.append(words[payout.status] % {"amount": format_usdc(payout.amount_micro)})
        if payout.run.status == PayoutRun.Status.PAUSED and payout.status == Payout.Status.AWAITING_RELEASE:
            reasons.append(_("The payout run is paused: the wallet we pay from is being filled up or checked."))
    return reasons
