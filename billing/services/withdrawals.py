"""A customer takes unspent money back: a run of one payout, carried out by the machine that pays providers, and no other.

What is asked for leaves the balance at once (nobody can spend it twice); the wallet gets it less the fee. Holds stay as they
are: the floor of the account is what is left after them. Until a transaction is signed it can be cancelled, and all of it,
fee included, is back.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Party, User
from accounts.services import notification_send
from billing.models import Account, Destination, Payout, PayoutRun, Purpose, RunKind, Transfer
from billing.selectors.freezes import freeze_of, hold_of
from billing.selectors.payouts import destination_of, payout_most_micro
from billing.selectors.policies import policy_value
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from billing.services.payouts.release import payout_cancel
from billing.states import PAYOUT_RUN
from core import jobs
from core.errors import Conflict, InsufficientFunds, Invalid, MoveNotAllowed, NotFound, StaleState
from core.ids import uuid7
from core.locks import lock_rows
from core.money import format_usdc

log = structlog.get_logger(__name__)

OPEN_MAX = 3
"""Each waits for two people: a customer who splits a balance into hundreds would keep them from everybody else's."""


def withdrawal_request(*, party: Party, amount_micro: int, request_key: UUID, now: datetime) -> Payout:
    """Take ``amount_micro`` off the party's balance and reserve it, less the fee, for its proven withdrawal wallet.

    ``request_key`` is the caller's own name for this request: the same key and amount again give the earlier payout.
    Raises Invalid (field amount below the minimum; field wallet: none, or still cooling down), InsufficientFunds (field amount:
    more than balance less holds), Conflict (the account is not active, too many are open, or the key was used for
    another amount). Nothing has moved then.
    """
    customer = account_open(kind=Account.Kind.CUSTOMER, owner=party)
    in_flight = account_open(kind=Account.Kind.PAYOUT_IN_FLIGHT, owner=party)
    with transaction.atomic():
        # The accounts' rows first: a twin of this request waits here and then finds the payout made.
        rows = {row.pk: row for row in lock_rows(Account.objects.all(), [customer.pk, in_flight.pk])}
        earlier = Payout.objects.filter(party=party, request_key=request_key).first()
        if earlier is not None:
            return _same(earlier, amount_micro)
        fee = _fee_of(amount_micro, rows[customer.pk], now)
        wallet = _wallet_of(party, now)
        _check_party(party)
        payout = _reserve(party, wallet, amount_micro, fee, request_key, now)
        context = {"amount_micro": amount_micro, "fee_micro": fee, "address": wallet.address}
        url = "/billing/withdrawals/"
        notification_send(kind="withdrawal_requested", context=context, party=party, url=url, now=now)
    log.info("withdrawal_requested", payout=str(payout.pk), amount_micro=amount_micro)
    return payout


def withdrawal_cancel(*, party: Party, payout_id: UUID, actor: User, now: datetime) -> Payout:
    """Give a withdrawal of the party's back to its balance. Cancelling a cancelled one changes nothing.

    Raises NotFound (none of theirs), Conflict (a signed transaction may pay it, or has).
    """
    payout = Payout.objects.filter(party=party, pk=payout_id, request_key__isnull=False).first()
    if payout is None:
        raise NotFound("There is no such withdrawal.")
    if payout.status == Payout.Status.CANCELLED:
        return payout
    try:
        return payout_cancel(payout=payout, reason="cancelled by its customer", actor=actor, now=now)
    except (MoveNotAllowed, StaleState, Conflict) as error:
        raise Conflict(_("This withdrawal is on its way already and cannot be cancelled any more.")) from error


def _same(earlier: Payout, amount_micro: int) -> Payout:
    if earlier.amount_micro + earlier.fee_micro != amount_micro:
        raise Conflict(_("This request was sent before with another amount; look at your withdrawals."))
    return earlier


def _fee_of(amount_micro: int, account: Account, now: datetime) -> int:
    """The fee of a withdrawal of this much, once it is sure that the account can give it."""
    minimum, fee = policy_value("withdrawal_minimum_micro", now), policy_value("withdrawal_fee_micro", now)
    available = account.balance - account.held - account.min_balance
    if amount_micro < minimum or amount_micro <= fee:
        words = {"minimum": format_usdc(minimum), "available": format_usdc(max(0, available))}
        allowed = _("from %(minimum)s USDC up to what is available, %(available)s USDC") % words
        raise Invalid.field("amount", found=format_usdc(amount_micro), allowed=allowed)
    if amount_micro - fee > (most := payout_most_micro(now)):
        allowed = _("at most %(most)s USDC at once, besides the fee") % {"most": format_usdc(most)}
        raise Invalid.field("amount", found=format_usdc(amount_micro), allowed=allowed)
    if amount_micro > available:
        words = {"found": format_usdc(amount_micro), "available": format_usdc(max(0, available))}
        sentence = _("Found %(found)s USDC; available: %(available)s USDC, without what is set aside for jobs.") % words
        raise InsufficientFunds(_("The available balance does not cover this."), fields={"amount": sentence})
    return fee


def _wallet_of(party: Party, now: datetime) -> Destination:
    wallet = destination_of(party, Purpose.WITHDRAWAL)
    if wallet is None:
        raise Invalid.field("wallet", found="", allowed=_("a proven wallet: prove one first"))
    if wallet.usable_from > now:
        allowed = _("a wallet that has cooled down: this one can be used from %(when)s on") % {
            "when": f"{wallet.usable_from:%Y-%m-%d %H:%M} UTC"
        }
        raise Invalid.field("wallet", found=wallet.address, allowed=allowed)
    return wallet


def _check_party(party: Party) -> None:
    party.refresh_from_db(fields=["status"])
    if freeze_of(party) is not None or hold_of(party) is not None:
        raise Conflict(_("Payouts of this account are stopped: write to us."))
    if party.status != Party.Status.ACTIVE:
        raise Conflict(_("The account is suspended: nothing is paid out."))
    if Payout.objects.filter(party=party, request_key__isnull=False, status__in=Payout.OPEN).count() >= OPEN_MAX:
        raise Conflict(_("Three withdrawals are under way; ask for the next one when one of them has arrived."))


def _reserve(
    party: Party, wallet: Destination, amount_micro: int, fee: int, request_key: UUID, now: datetime
) -> Payout:
    """The run of one, its payout, and the money in flight; in the caller's transaction, under the accounts' locks."""
    key, today = uuid7(), now.date()
    customer = account_open(kind=Account.Kind.CUSTOMER, owner=party)
    in_flight = account_open(kind=Account.Kind.PAYOUT_IN_FLIGHT, owner=party)
    legs = [(customer.pk, -amount_micro), (in_flight.pk, amount_micro - fee)]
    if fee:
        legs.append((account_open(kind=Account.Kind.NETWORK_FEE).pk, fee))
    reserve = transfer_post(
        source=f"payout:{key}:reserve",
        kind=Transfer.Kind.WITHDRAWAL_RESERVED,
        legs=legs,
        effective_at=now,
        now=now,
        floored=frozenset({customer.pk}),
    )
    run = PayoutRun.objects.create(
        kind=RunKind.WITHDRAWAL, period_start=today, period_end=today + timedelta(days=1), created_at=now
    )
    payout = Payout.objects.create(
        id=key,
        run=run,
        party=party,
        amount_micro=amount_micro - fee,
        fee_micro=fee,
        request_key=request_key,
        rail=wallet.rail,
        destination=wallet,
        address=wallet.address,
        next_look_at=now,
        reserve_transfer=reserve,
        created_at=now,
    )
    changes = {"planned_at": now, "bank_planned_at": now}
    PAYOUT_RUN.move(run, to=PayoutRun.Status.PLANNED, at=now, actor=f"party:{party.pk}", changes=changes)
    jobs.enqueue("billing.payout_run_start", run_id=str(run.pk))
    return payout
