"""After a restore: what the hot wallet paid according to the chain, against what the books know of.

Books that are older than the chain owe what is paid already. Nothing is signed until every memo of ours on chain has its
payout; ``payment_adopt`` books what the books have forgotten, one payment at a time and by a person. It moves nothing on chain.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

import structlog
from django.db import transaction

from accounts.models import User
from billing.chain.errors import ChainError, HistoryIncomplete, PayoutShapeRefused, RpcError
from billing.chain.history import history_since
from billing.chain.records import AddressSignature, TransactionRecord
from billing.chain.transactions import PayoutShape, parse_payout_message, payout_ids_in_memo, transaction_message
from billing.models import Account, ChainMatch, Destination, Payout, PayoutAttempt, Purpose, Rail, Transfer
from billing.services.audit import audit_record
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from billing.services.network import Network, NetworkUnavailable, network
from billing.services.payouts.settle import network_legs, payout_settle, rent_lamports
from billing.states import ATTEMPT_LIVE, PAYOUT
from core.errors import Conflict, Denied, Invalid
from core.states import actor_name

log = structlog.get_logger(__name__)

# What a finding says. The first two keep payouts frozen.
FORGOTTEN = "forgotten"
"""The books have the payout, and think that it is not paid."""
FOREIGN = "foreign"
"""The books do not have this payout, have it otherwise, or it is paid by another transaction."""
UNDER_WAY = "under_way"
"""The very transaction that the books follow: the next pass settles it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A payment on chain that is not settled in the books as it is. Amount in micro-USDC."""

    what: str
    signature: str
    payout: str
    address: str
    amount_micro: int


def payouts_match(*, now: datetime, actor: object | None = None) -> ChainMatch:
    """Hold the whole history of the hot wallet, as both nodes tell it, against the books, and write down what differs.

    Raises NetworkUnavailable (no answer, or only a part of the history), Conflict (the nodes do not agree yet).
    """
    net = network()
    try:
        through, payments = _payments(net)
        findings = [finding for entry in payments if (finding := _finding(net, entry)) is not None]
    except (RpcError, HistoryIncomplete) as error:
        raise NetworkUnavailable(f"The chain gives no answer: {error}") from error
    still = sum(finding.what != UNDER_WAY for finding in findings)
    log.warning("payouts_matched", payments=len(payments), open=still)
    with transaction.atomic():
        match = ChainMatch.objects.create(
            created_at=now,
            actor=actor_name(actor),
            through_slot=through,
            matched=len(payments) - len(findings),
            open=still,
            findings=[asdict(finding) for finding in findings],
        )
        after = {"matched": match.matched, "open": still}
        audit_record(verb="payouts_match", subject=match, actor=actor, before={}, after=after, now=now)
    return match


def payment_adopt(*, signature: str, actor: User, reason: str, now: datetime) -> str:
    """Book a payment that the chain has and the books do not. Returns what it was: ``forgotten`` or ``foreign``.

    Forgotten: its payout is settled by it. Foreign: it is taken from what its payee is owed (below zero, if need be: a debt),
    or, when the address is nobody's, from the operator's capital.
    Raises Denied (no staff with the right, or the payee), Invalid (fields signature, reason), NetworkUnavailable.
    """
    if not actor.is_staff or not actor.has_perm("billing.change_payout"):
        raise Denied("Only staff with the right to change payouts can do this.")
    if not reason.strip():
        raise Invalid.field("reason", found=reason, allowed="a sentence for those who read it later")
    net = network()
    try:
        _, payments = _payments(net)
        entry = next((each for each in payments if each.signature == signature.strip()), None)
        finding = None if entry is None else _finding(net, entry)
        record = None if entry is None else net.primary.transaction(entry.signature, commitment="finalized")
    except (RpcError, HistoryIncomplete) as error:
        raise NetworkUnavailable(f"The chain gives no answer: {error}") from error
    if finding is None or record is None or finding.what == UNDER_WAY:
        raise Invalid.field(
            "signature", found=signature, allowed="a payment that the last match found forgotten or foreign"
        )
    if _payee(finding.address, member=actor):
        raise Denied("Nobody decides about money that went to themselves.")
    log.warning("payment_adopted", **asdict(finding), actor=str(actor.pk), reason=reason)
    with transaction.atomic():
        if finding.what == FORGOTTEN:
            subject: Payout | Transfer = _settle(net, finding, record, actor, reason.strip(), now)
        else:
            subject = _book(net, finding, record, now)
        before, after = {"booked": False}, asdict(finding)
        audit_record(
            verb="payment_adopt",
            subject=subject,
            actor=actor,
            before=before,
            after=after,
            reason=reason.strip(),
            now=now,
        )
    return finding.what


def _payments(net: Network) -> tuple[int, list[AddressSignature]]:
    """The slot up to which both nodes were asked, and every successful transaction with a payout's memo up to there."""
    through = min(node.slot(commitment="finalized") for node in (net.primary, net.second))
    found = []
    for node in (net.primary, net.second):
        history = history_since(node, net.hot_wallet, 0)
        found.append([e for e in history if e.error is None and e.slot <= through and payout_ids_in_memo(e.memo)])
    first, second = ({entry.signature for entry in each} for each in found)
    if first != second:
        raise Conflict(f"The nodes do not agree about {len(first ^ second)} payments yet: look again.")
    return through, found[0]


def _finding(net: Network, entry: AddressSignature) -> Finding | None:
    """None when the books know the payment as it is."""
    attempt = PayoutAttempt.objects.select_related("payout").filter(signature=entry.signature).first()
    if attempt is not None and attempt.state == PayoutAttempt.State.SETTLED:
        return None
    if Transfer.objects.filter(source=_source(entry.signature)).exists():
        return None
    key, address, amount = _said(net, entry)
    if attempt is not None and attempt.state in ATTEMPT_LIVE:
        return Finding(UNDER_WAY, entry.signature, str(key), address, amount)
    payout = Payout.objects.filter(pk=key, rail=Rail.USDC).first()
    fits = payout is not None and (payout.address, payout.amount_micro) == (address, amount)
    waits = fits and payout is not None and payout.status in Payout.OPEN
    free = waits and not PayoutAttempt.objects.filter(payout=payout, state__in=ATTEMPT_LIVE).exists()
    what = FORGOTTEN if free and attempt is None else FOREIGN
    return Finding(what, entry.signature, str(key), address, amount)


def _said(net: Network, entry: AddressSignature) -> tuple[UUID, str, int]:
    """Payout, payee's address and amount, from the signed bytes; a transaction of another shape says only what moved."""
    record = net.primary.transaction(entry.signature, commitment="finalized")
    if record is None:
        raise HistoryIncomplete(f"{net.primary.name} lists {entry.signature} and does not have it")
    shape = _shape(record)
    if shape is not None:
        return shape.payout_id, shape.destination_owner, shape.amount_micro
    gained = [change for change in record.token_changes if change.mint == net.mint and change.delta > 0]
    owner = gained[0].owner or gained[0].account if gained else ""
    return payout_ids_in_memo(entry.memo)[0], owner, -record.token_delta(net.hot_account, net.mint)


def _shape(record: TransactionRecord) -> PayoutShape | None:
    try:
        return parse_payout_message(transaction_message(record.raw))
    except (ChainError, PayoutShapeRefused, ValueError):
        return None


def _payee(address: str, *, member: User | None = None) -> list[Destination]:
    """Who was paid at this address, the latest first."""
    found = Destination.objects.filter(address=address, rail=Rail.USDC).select_related("party").order_by("-created_at")
    return [row for row in found if member is None or row.party.members.filter(user=member).exists()]


def _settle(
    net: Network, finding: Finding, record: TransactionRecord, actor: User, reason: str, now: datetime
) -> Payout:
    """The payout gets the attempt that the books have forgotten, as landed, and is settled by it."""
    shape = _shape(record)
    if shape is None:
        raise Conflict("The transaction has another shape than a payout of ours; book it by hand.")
    with transaction.atomic():
        payout = Payout.objects.select_for_update().get(pk=finding.payout)
        if payout.status != Payout.Status.SUBMITTED:
            PAYOUT.move(payout, to=Payout.Status.SUBMITTED, actor=actor, reason=reason, at=now)
        attempt = PayoutAttempt.objects.create(
            payout=payout,
            n=payout.attempts.count() + 1,
            message=transaction_message(record.raw),
            raw=record.raw,
            signature=record.signature,
            blockhash=shape.blockhash,
            # It is final: neither its expiry nor where to look for it matters any more.
            last_valid_block_height=0,
            context_slot=record.slot,
            hot_wallet=net.hot_wallet,
            state=PayoutAttempt.State.LANDED,
            created_at=now,
        )
        payout_settle(payout=payout, attempt=attempt, record=record, now=now)
    return payout


def _book(net: Network, finding: Finding, record: TransactionRecord, now: datetime) -> Transfer:
    payees = _payee(finding.address)
    if payees:
        earned = payees[0].purpose == Purpose.PAYOUT
        kind = Account.Kind.PROVIDER_PAYABLE if earned else Account.Kind.CUSTOMER
        payer = account_open(kind=kind, owner=payees[0].party)
    else:
        payer = account_open(kind=Account.Kind.CAPITAL)
    treasury = account_open(kind=Account.Kind.TREASURY)
    paid, rent = -record.token_delta(net.hot_account, net.mint), rent_lamports(finding.address, record)
    return transfer_post(
        source=_source(finding.signature),
        kind=Transfer.Kind.PAYOUT_SETTLED,
        legs=[(payer.pk, -paid), (treasury.pk, paid), *network_legs(record.fee_lamports, rent)],
        effective_at=now,
        now=now,
    )


def _source(signature: str) -> str:
    return f"payout-restored:{signature}"
