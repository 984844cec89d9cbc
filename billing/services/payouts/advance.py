"""Carrying out one payout: one pass of the loop in docs/money.md. A process may be killed between any two steps.

    claim → recheck → build → simulate → sign → record (INSERT the attempt, COMMIT) → send → look → settle

What protects the money: signed bytes are in the books before any node sees them; while an attempt may still land there is no
second one (a partial unique index); a new one follows only on proof that the old one never lands (billing.chain.fate); and
the ledger follows what is final. A pass that learns nothing changes nothing: the next one looks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F, Q

from billing.chain.addresses import DestinationRefused, destination_check
from billing.chain.errors import ChainError, HistoryIncomplete, PayoutShapeRefused, RpcError, RpcRefused
from billing.chain.fate import Fate, SignedPayout, Verdict, payout_fate
from billing.chain.records import LatestBlockhash
from billing.chain.signer import Signer
from billing.chain.transactions import (
    SignedTransaction,
    assemble_transaction,
    build_payout_message,
    token_account_address,
    unsigned_transaction,
)
from billing.models import Payout, PayoutAttempt, Rail
from billing.selectors.payouts import payouts_frozen
from billing.services.network import Network, NetworkUnavailable, network
from billing.services.payouts.backups import RESTORED, books_behind
from billing.services.payouts.runs import SWITCH_LOCK, payouts_freeze
from billing.services.payouts.screening import payee_obstacle
from billing.services.payouts.settle import attempt_fail, payout_settle
from billing.services.payouts.signing import payout_signer, signed_last
from billing.states import ATTEMPT, ATTEMPT_LIVE, PAYOUT
from core.errors import StaleState
from core.locks import lock_name

log = structlog.get_logger(__name__)

LEASE_SECONDS = 120
"""Longer than a pass with every call timing out (10 s each); after a crash the payout waits this long, no longer."""
LOOK_SECONDS = 2
"""Between looks at a sent transaction: a block is 0.4 s, finality some seconds more."""
BLOCKED_SECONDS = 3600
"""A frozen token account or a cool-down does not change from minute to minute."""
UNKNOWN_SECONDS = 600
"""An unknown one waits for people; if it turns up after all, it is settled."""


class _Blocked(Exception):
    """Something stands in the way of signing; the text is for staff."""


class _Paused(Exception):
    """Nothing is signed for anybody now; the payout stays as it is."""


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A payout's message, and what has to be remembered of the blockhash in it."""

    message: bytes
    latest: LatestBlockhash


def payout_advance(*, payout_id: UUID, now: datetime) -> str:
    """Take a payout one pass further; returns its status afterwards (``busy``: somebody else is at it, or it is closed).

    Run by the money worker, as often as one likes. Nothing is concluded from a node that does not answer.
    """
    return PayoutPass(payout_id, now).run()


class PayoutPass:
    """One pass over one payout, each step a method."""

    def __init__(self, payout_id: UUID, now: datetime) -> None:
        self.payout_id = payout_id
        self.now = now
        self.lease = uuid4()

    def run(self) -> str:
        payout = self.claim()
        if payout is None:
            return "busy"
        next_look = self.now + timedelta(seconds=LOOK_SECONDS)
        try:
            next_look = self._advance(payout)
        except (RpcError, HistoryIncomplete, NetworkUnavailable) as error:
            log.warning("payout_not_advanced", payout=str(self.payout_id), reason=str(error))
        except (IntegrityError, StaleState):
            # Our lease ran out and somebody else went on: what they did stands.
            log.warning("payout_pass_overtaken", payout=str(self.payout_id), exc_info=True)
        finally:
            self.unclaim(next_look)
        return Payout.objects.values_list("status", flat=True).get(pk=self.payout_id)

    def _advance(self, payout: Payout) -> datetime:
        """The steps; returns when to look next."""
        net = network()
        attempt = PayoutAttempt.objects.filter(payout=payout, state__in=ATTEMPT_LIVE).first()
        if attempt is None:
            try:
                attempt = self._attempt(net, payout)
            except _Blocked as obstacle:
                return self._block(payout, str(obstacle))
            except _Paused:
                return self.now + timedelta(seconds=UNKNOWN_SECONDS)
            self.send(net, attempt)
            return self.now + timedelta(seconds=LOOK_SECONDS)
        return self._follow(net, payout, attempt)

    def _attempt(self, net: Network, payout: Payout) -> PayoutAttempt:
        signer = payout_signer(net, self.now)
        self.check_backup(net)
        self.recheck(net, payout)
        unsigned = self.build(net, payout)
        self.simulate(net, unsigned)
        signed = self.sign(signer, unsigned)
        return self.record(net, payout, unsigned, signed)

    # The steps, in order

    def claim(self, *, only: str | None = None) -> Payout | None:
        """Take the lease, if the payout is one to work on (or in the status ``only``) and nobody else has it."""
        free = Q(lease_until__isnull=True) | Q(lease_until__lte=self.now)
        statuses = Payout.ADVANCING if only is None else (only,)
        taken = Payout.objects.filter(free, pk=self.payout_id, status__in=statuses, rail=Rail.USDC).update(
            lease_token=self.lease, lease_until=self.now + timedelta(seconds=LEASE_SECONDS)
        )
        if taken != 1:
            return None
        return Payout.objects.select_related("party", "destination").get(pk=self.payout_id)

    def check_backup(self, net: Network) -> None:
        """Books from a backup stop everything by themselves, whether or not somebody remembered to."""
        if payouts_frozen() is None and books_behind(net, signed_last()):
            payouts_freeze(frozen=True, restored=True, reason=RESTORED, now=self.now)
            raise _Paused

    def recheck(self, net: Network, payout: Payout) -> None:
        """Just before signing: all that was true when it was planned, again."""
        if payouts_frozen() is not None:
            raise _Paused
        obstacle = payee_obstacle(payout, self.now)
        if obstacle is not None:
            raise _Blocked(obstacle)
        try:
            destination_check(net.primary, payout.address, mint=net.mint, ours=net.ours)
        except DestinationRefused as error:
            raise _Blocked(str(error)) from error
        if payout.status == Payout.Status.BLOCKED:
            PAYOUT.move(payout, to=Payout.Status.READY, at=self.now, changes={"note": ""})

    def build(self, net: Network, payout: Payout) -> Unsigned:
        """The one message of this attempt, on a finalized blockhash: no fork can take it away."""
        latest = net.primary.latest_blockhash(commitment="finalized")
        message = build_payout_message(
            payout_id=payout.pk,
            hot_wallet=net.hot_wallet,
            mint=net.mint,
            destination_owner=payout.address,
            amount_micro=payout.amount_micro,
            blockhash=latest.blockhash,
        )
        return Unsigned(message, latest)

    def simulate(self, net: Network, unsigned: Unsigned) -> None:
        """A dry run without signatures: no node sees signed bytes that are not in our books."""
        found = net.primary.simulate(
            unsigned_transaction(unsigned.message), commitment="finalized", verify_signatures=False
        )
        if found.error is not None:
            raise _Blocked(f"the dry run fails: {found.error}")

    def sign(self, signer: Signer, unsigned: Unsigned) -> SignedTransaction:
        try:
            return assemble_transaction(unsigned.message, [signer.sign(unsigned.message)])
        except PayoutShapeRefused as error:
            if error.reason == "signed_too_soon":
                # A pass that died between signing and recording: its bytes never left us, and can land no more in a minute.
                raise _Paused from error
            raise _Blocked(f"the signer refuses: {error}") from error
        except (ChainError, OSError) as error:
            raise _Blocked(f"the signer refuses: {error}") from error

    def record(self, net: Network, payout: Payout, unsigned: Unsigned, signed: SignedTransaction) -> PayoutAttempt:
        """The attempt is committed before any node sees its bytes. Raises IntegrityError while another one may land."""
        with transaction.atomic():
            # The calls to the node took seconds. Under the switch's lock, so that nothing is recorded after a freeze returned.
            lock_name(SWITCH_LOCK)
            if payouts_frozen() is not None:
                raise _Paused
            PAYOUT.move(payout, to=Payout.Status.SUBMITTED, at=self.now)
            return self.insert(net, payout, unsigned, signed)

    def insert(self, net: Network, payout: Payout, unsigned: Unsigned, signed: SignedTransaction) -> PayoutAttempt:
        return PayoutAttempt.objects.create(
            payout=payout,
            n=payout.attempts.count() + 1,
            message=unsigned.message,
            raw=signed.raw,
            signature=signed.signature,
            blockhash=unsigned.latest.blockhash,
            last_valid_block_height=unsigned.latest.last_valid_block_height,
            context_slot=unsigned.latest.context_slot,
            hot_wallet=net.hot_wallet,
            created_at=self.now,
        )

    def send(self, net: Network, attempt: PayoutAttempt) -> None:
        """Hand the bytes to the node. Whatever it answers, only the chain tells what became of them."""
        PayoutAttempt.objects.filter(pk=attempt.pk).update(sends=F("sends") + 1)
        if attempt.state == PayoutAttempt.State.SIGNED:
            ATTEMPT.move(attempt, to=PayoutAttempt.State.SENT, at=self.now)
        try:
            # No preflight: a node that lags would refuse what others accept, and we have tried it ourselves.
            net.primary.send(bytes(attempt.raw), skip_preflight=True, preflight_commitment="finalized")
        except RpcRefused as error:
            log.info("payout_send_refused", attempt=str(attempt.pk), reason=str(error))

    def look(self, net: Network, attempt: PayoutAttempt) -> Verdict:
        """What became of it, from both nodes."""
        return payout_fate(net.primary, net.second, _signed_payout(net, attempt))

    def unclaim(self, next_look: datetime) -> None:
        """Give the lease back, if it is still ours."""
        Payout.objects.filter(pk=self.payout_id, lease_token=self.lease).exclude(
            status__in=(Payout.Status.SETTLED, Payout.Status.CANCELLED)
        ).update(lease_token=None, lease_until=None, next_look_at=next_look)

    # What follows from a look

    def _follow(self, net: Network, payout: Payout, attempt: PayoutAttempt) -> datetime:
        verdict = self.look(net, attempt)
        soon = self.now + timedelta(seconds=LOOK_SECONDS)
        if verdict.fate is Fate.LANDED and verdict.record is not None:
            payout_settle(payout=payout, attempt=attempt, record=verdict.record, now=self.now)
            return soon
        if attempt.state == PayoutAttempt.State.UNKNOWN:
            return self.now + timedelta(
                seconds=UNKNOWN_SECONDS
            )  # never signed again by itself, whatever the nodes say now
        if verdict.fate is Fate.PENDING:
            self.send(net, attempt)
            return soon
        if verdict.fate is Fate.FAILED and verdict.record is not None:
            attempt_fail(payout=payout, attempt=attempt, record=verdict.record, now=self.now)
            return self._block(payout, f"it failed on chain: {verdict.reason}")
        if verdict.fate is Fate.EXPIRED:
            self.expire(payout, attempt, verdict.reason)
            return self.now
        return self._unknown(payout, attempt, verdict.reason)

    def expire(self, payout: Payout, attempt: PayoutAttempt, reason: str, *, actor: object | None = None) -> None:
        """Proven never to land: the payout may be signed anew."""
        with transaction.atomic():
            error = {"error": reason[:200]}
            ATTEMPT.move(attempt, to="expired", reason=reason, at=self.now, actor=actor, changes=error)
            PAYOUT.move(payout, to=Payout.Status.READY, reason=reason, at=self.now, actor=actor, changes={"note": ""})

    def _unknown(self, payout: Payout, attempt: PayoutAttempt, reason: str) -> datetime:
        log.error("payout_unknown", payout=str(payout.pk), attempt=str(attempt.pk), reason=reason)
        with transaction.atomic():
            changes = {"error": reason[:200]}
            ATTEMPT.move(attempt, to=PayoutAttempt.State.UNKNOWN, reason=reason, at=self.now, changes=changes)
            note = {"note": reason[:200]}
            PAYOUT.move(payout, to=Payout.Status.UNKNOWN, reason=reason, at=self.now, changes=note)
        return self.now + timedelta(seconds=UNKNOWN_SECONDS)

    def _block(self, payout: Payout, reason: str) -> datetime:
        log.error("payout_blocked", payout=str(payout.pk), reason=reason)
        if payout.status == Payout.Status.BLOCKED:
            Payout.objects.filter(pk=payout.pk, status=Payout.Status.BLOCKED).update(note=reason[:200])
        else:
            changes = {"note": reason[:200]}
            PAYOUT.move(payout, to=Payout.Status.BLOCKED, reason=reason, at=self.now, changes=changes)
        return self.now + timedelta(seconds=BLOCKED_SECONDS)


def _signed_payout(net: Network, attempt: PayoutAttempt) -> SignedPayout:
    payout = attempt.payout
    first = payout.attempts.order_by("n").values_list("context_slot", flat=True)[0]
    return SignedPayout(
        payout_id=payout.pk,
        signature=attempt.signature,
        last_valid_block_height=attempt.last_valid_block_height,
        context_slot=attempt.context_slot,
        payout_since_slot=first,
        treasury=attempt.hot_wallet,
        destination_account=token_account_address(payout.address, net.mint),
        mint=net.mint,
        amount_micro=payout.amount_micro,
    )
