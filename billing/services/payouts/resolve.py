"""A person's answer to an unknown payout. The person decides when to look; what follows is decided by proof alone."""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import transaction

from accounts.models import User
from billing.chain.errors import HistoryIncomplete, RpcError
from billing.chain.fate import Fate
from billing.models import Payout, PayoutAttempt
from billing.services.network import NetworkUnavailable, network
from billing.services.payouts.advance import PayoutPass
from billing.services.payouts.release import payout_audit
from billing.services.payouts.settle import attempt_fail, payout_settle
from core import jobs
from core.errors import Conflict, Denied, Invalid

log = structlog.get_logger(__name__)


def payout_resolve(*, payout: Payout, actor: User, reason: str, now: datetime) -> Payout:
    """Look at an unknown payout once more, with both nodes, and act on what is proven now.

    Landed: settled. Failed on chain: its fee is booked and it may be signed anew. Expired by the full proof of
    ``billing.chain.fate``: it may be signed anew. Anything else moves nothing.
    Raises Denied (not staff with the right, or the payee), Invalid (field reason), Conflict (it is not unknown, somebody is
    at it, or nothing is proven: the message says what is missing), NetworkUnavailable (a node does not answer).
    """
    if not actor.is_staff or not actor.has_perm("billing.change_payout"):
        raise Denied("Only staff with the right to change payouts can do this.")
    if payout.party.members.filter(user=actor).exists():
        raise Denied("Nobody resolves a payout to themselves.")
    if not reason.strip():
        raise Invalid.field("reason", found=reason, allowed="a sentence for those who read it later")
    step = PayoutPass(payout.pk, now)
    claimed = step.claim(only=Payout.Status.UNKNOWN)
    if claimed is None:
        raise Conflict("payout: it is not unknown (any longer), or the money worker is looking at it just now.")
    try:
        _act(step, claimed, actor, reason.strip(), now)
    except (RpcError, HistoryIncomplete) as error:
        raise NetworkUnavailable(f"The chain gives no answer: {error}") from error
    finally:
        step.unclaim(now)
    found = Payout.objects.select_related("party").get(pk=payout.pk)
    with transaction.atomic():  # its own: the moves above are the chain's, each in its transaction
        before, after = {"status": Payout.Status.UNKNOWN}, {"status": found.status}
        payout_audit("payout_resolve", found, actor, now, before=before, after=after, reason=reason.strip())
    return found


def _act(step: PayoutPass, payout: Payout, actor: User, reason: str, now: datetime) -> None:
    net = network()
    attempt = PayoutAttempt.objects.get(payout=payout, state=PayoutAttempt.State.UNKNOWN)
    verdict = step.look(net, attempt)
    log.warning("payout_resolved", payout=str(payout.pk), fate=str(verdict.fate), actor=str(actor.pk), reason=reason)
    if verdict.fate is Fate.LANDED and verdict.record is not None:
        payout_settle(payout=payout, attempt=attempt, record=verdict.record, now=now)
    elif verdict.fate is Fate.FAILED and verdict.record is not None:
        attempt_fail(payout=payout, attempt=attempt, record=verdict.record, now=now, actor=actor)
    elif verdict.fate is Fate.EXPIRED:
        step.expire(payout, attempt, f"{verdict.reason}; {reason}", actor=actor)
    else:
        raise Conflict(f"Nothing is proven yet, so nothing was moved: {verdict.reason}.")
    if payout.status == Payout.Status.READY:
        jobs.enqueue("billing.payout_submit", payout_id=str(payout.pk))
