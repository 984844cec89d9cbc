"""What follows, in the books, from a line that is booked, rejected, absent or returned. Each in the caller's transaction."""

from __future__ import annotations

from datetime import datetime

from accounts.services import notification_send
from billing.models import Account, BankEntry, BankLine, Payout, Transfer
from billing.rails.base import masked
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from billing.states import BANK_LINE, PAYOUT
from core.money import format_cents

Legs = list[tuple[int, int]]
EARNINGS_URL = "/provider/earnings/"


def line_settle(line: BankLine, *, now: datetime, actor: object | None = None) -> Transfer:
    """The bank has booked the debit: in flight → trading in USDC, trading → bank in the line's currency; the payout is paid."""
    payout = line.payout
    in_flight = account_open(kind=Account.Kind.PAYOUT_IN_FLIGHT, owner=payout.party)
    settled = transfer_post(
        source=f"payout:{payout.pk}:settle",
        kind=Transfer.Kind.PAYOUT_SETTLED,
        legs=[(in_flight.pk, -payout.amount_micro), *_trade(payout, line.amount_cents)],
        effective_at=now,
        now=now,
    )
    BANK_LINE.move(line, to=BankLine.State.SETTLED, at=now, actor=actor)
    changes = {"closing_transfer": settled, "settled_at": now, "note": ""}
    PAYOUT.move(payout, to=Payout.Status.SETTLED, at=now, actor=actor, changes=changes)
    _tell("payout_banked", line, now)
    return settled


def line_return(
    line: BankLine, *, arrived_cents: int, reason: str, now: datetime, actor: object | None = None
) -> Transfer:
    """It came back: a transfer of its own, in which the payee gets back exactly the USDC that the payout took.

    What the banks kept of it (``arrived_cents`` less than the line) is ours to bear.
    """
    payout = line.payout
    payable = account_open(kind=Account.Kind.PROVIDER_PAYABLE, owner=payout.party)
    trade = [(account, -amount) for account, amount in _trade(payout, line.amount_cents)]
    kept = line.amount_cents - arrived_cents
    if kept < 0:
        raise ValueError("more came back than was paid")
    if kept:
        bank = account_open(kind=Account.Kind.BANK, asset=payout.currency)
        charges = account_open(kind=Account.Kind.BANK_CHARGES, asset=payout.currency)
        trade = [(account, amount + kept if account == bank.pk else amount) for account, amount in trade]
        trade = [leg for leg in [*trade, (charges.pk, -kept)] if leg[1]]
    returned = transfer_post(
        source=f"payout:{payout.pk}:return",
        kind=Transfer.Kind.PAYOUT_RETURNED,
        legs=[(payable.pk, payout.amount_micro), *trade],
        effective_at=now,
        now=now,
    )
    BANK_LINE.move(line, to=BankLine.State.RETURNED, at=now, actor=actor, changes={"reason": reason[:200]})
    _tell("payout_returned", line, now)
    return returned


def line_reject(line: BankLine, *, reason: str, now: datetime) -> None:
    """The bank will not pay it: the payout is ready for a new file, or to be cancelled."""
    BANK_LINE.move(line, to=BankLine.State.REJECTED, at=now, changes={"reason": reason[:200]})
    note = f"the bank rejected it: {reason}"[:200]
    PAYOUT.move(line.payout, to=Payout.Status.READY, at=now, reason=note, changes={"note": note})
    _tell("payout_rejected", line, now)


def line_absent(line: BankLine, *, reason: str, actor: object, now: datetime) -> None:
    """Two people saw that the bank never had it: the payout is ready for a new file."""
    BANK_LINE.move(line, to=BankLine.State.ABSENT, at=now, actor=actor, reason=reason, changes={"reason": reason[:200]})
    PAYOUT.move(line.payout, to=Payout.Status.READY, at=now, actor=actor, reason=reason, changes={"note": ""})


def entry_post(entry: BankEntry, *, against: str, now: datetime) -> Transfer:
    """A movement that is no payout's: the operator's own money (``capital``), or what the bank charges."""
    bank = account_open(kind=Account.Kind.BANK, asset=entry.currency)
    other = account_open(kind=against, asset=entry.currency)
    # What the account holds more of is −, as on the treasury.
    amount = entry.amount_cents if entry.side == BankEntry.Side.DEBIT else -entry.amount_cents
    return transfer_post(
        source=f"bank:{entry.pk}",
        kind=Transfer.Kind.BANK_BOOKED,
        legs=[(bank.pk, amount), (other.pk, -amount)],
        effective_at=now,
        now=now,
    )


def _trade(payout: Payout, cents: int) -> Legs:
    """USDC into the trading account, euros out of it, and the bank account has them less."""
    return [
        (account_open(kind=Account.Kind.TRADING).pk, payout.amount_micro),
        (account_open(kind=Account.Kind.TRADING, asset=payout.currency).pk, -cents),
        (account_open(kind=Account.Kind.BANK, asset=payout.currency).pk, cents),
    ]


def _tell(kind: str, line: BankLine, now: datetime) -> None:
    payout = line.payout
    context = {
        "amount": f"{format_cents(line.amount_cents)} {payout.currency}",
        "amount_micro": payout.amount_micro,
        "account": masked(payout.address),
        "reference": line.end_to_end_id,
        "reason": line.reason,
    }
    notification_send(kind=kind, context=context, party=payout.party, url=EARNINGS_URL, now=now)
