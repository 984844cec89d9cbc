"""What lies on chain against what the books say: the hot wallet's fundings, and the comparison that stops payouts.

The vault is told by deposits; the hot wallet by what we put in (its fundings, read from the chain like deposits) less what
payouts took. Nothing here is done inside a transaction but the posting itself.
"""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import transaction

from billing.chain.deposits import Credit
from billing.chain.errors import HistoryIncomplete, RpcError
from billing.chain.history import history_since
from billing.chain.rpc import RpcClient
from billing.models import Account, PayoutAttempt, ReaderCursor, Transfer
from billing.selectors.integrity import drift_first
from billing.selectors.payouts import payouts_frozen
from billing.selectors.treasury import FUNDING, deposits_known, fundings_known, treasury_books
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from billing.services.network import Network, NetworkUnavailable, network
from billing.services.payouts.runs import payouts_freeze
from billing.services.reading import credits_take, credits_unread
from core.locks import lock_name
from core.money import format_usdc
from core.states import SYSTEM

log = structlog.get_logger(__name__)


def treasury_read(*, now: datetime) -> int:
    """Post what was put into the hot wallet since the last time: from the vault, or of the operator's own.

    The first time, what it held before its history began is posted as an opening. Returns the number of new fundings.
    """
    try:
        net = network()
        if not ReaderCursor.objects.filter(account=net.hot_account).exists():
            _watch(net, now)
    except (NetworkUnavailable, HistoryIncomplete, RpcError) as error:
        log.warning("treasury_not_read", reason=str(error))
        return 0
    return credits_take(
        net,
        account=net.hot_account,
        known=_known_to_hot_wallet,
        record=lambda credit, at: _record(net, credit, at),
        now=now,
    )


def treasury_difference() -> list[str] | None:
    """Sentences about where chain and books differ; empty: they agree; None: unknown (no chain, no answer, not read yet).

    Payouts that are on their way may be on either side, and what arrived but is not read yet counts as there.
    """
    try:
        net = network()
        if not ReaderCursor.objects.filter(account=net.hot_account).exists():
            return None
        return _compare(net)
    except (NetworkUnavailable, HistoryIncomplete, RpcError) as error:
        log.info("treasury_unknown", reason=str(error))
        return None


def books_check(*, now: datetime) -> str | None:
    """Freeze payouts when the books are wrong or the chain has something else; returns the sentence. A person thaws."""
    wrong = drift_first() or next(iter(treasury_difference() or []), None)
    if wrong is not None and payouts_frozen() is None:
        log.error("books_wrong", reason=wrong)
        payouts_freeze(frozen=True, reason=f"the books are wrong: {wrong}", now=now, actor=SYSTEM)
    return wrong


def _watch(net: Network, now: datetime) -> None:
    """Begin to watch the hot wallet: what it holds that no transaction of its history brought is its opening balance."""
    held = _balance(net.primary, net.hot_account)
    moved = 0
    for entry in history_since(net.primary, net.hot_account, 0):
        record = net.primary.transaction(entry.signature, commitment="finalized")
        if record is None:
            raise HistoryIncomplete(f"{net.primary.name} lists {entry.signature} and does not have it")
        moved += record.token_delta(net.hot_account, net.mint)
    opening = held - moved
    if opening < 0 or held != _balance(net.primary, net.hot_account) or held != _balance(net.second, net.hot_account):
        raise HistoryIncomplete("the hot wallet moves just now, or the endpoints do not agree about it")
    with transaction.atomic():
        lock_name(f"billing:deposits:{net.hot_account}")
        if opening:
            _post(f"{FUNDING}:opening:{net.hot_account}", Account.Kind.CAPITAL, opening, now)
        ReaderCursor.objects.get_or_create(
            account=net.hot_account, defaults={"signature": "", "slot": 0, "read_at": now}
        )


def _known_to_hot_wallet(since_slot: int) -> set[str]:
    """Fundings we have, and our own payouts, which need no look."""
    ours = PayoutAttempt.objects.filter(context_slot__gte=since_slot).values_list("signature", flat=True)
    return fundings_known() | set(ours)


def _record(net: Network, credit: Credit, now: datetime) -> bool:
    source = f"{FUNDING}:{credit.signature}:{credit.token_account}"
    with transaction.atomic():
        lock_name(f"billing:deposits:{credit.token_account}")
        if Transfer.objects.filter(source=source).exists():
            return False
        _post(source, _origin(net, credit), credit.amount_micro, now)
    log.info("treasury_funded", signature=credit.signature, amount_micro=credit.amount_micro)
    return True


def _origin(net: Network, credit: Credit) -> str:
    return Account.Kind.DEPOSITS_CLEARING if credit.senders == (net.vault_owner,) else Account.Kind.CAPITAL


def _post(source: str, origin: str, amount_micro: int, now: datetime) -> None:
    treasury, giver = account_open(kind=Account.Kind.TREASURY), account_open(kind=origin)
    transfer_post(
        source=source,
        kind=Transfer.Kind.FUNDING,
        legs=[(treasury.pk, -amount_micro), (giver.pk, amount_micro)],
        effective_at=now,
        now=now,
    )


def _compare(net: Network) -> list[str]:
    before = treasury_books()
    vault, hot = _balance(net.primary, net.vault_account), _balance(net.primary, net.hot_account)
    after = treasury_books()
    # What was posted while we asked may be on either side of the answer: the books' range is that of both looks.
    lowest = {
        "vault": min(before.vault_micro, after.vault_micro),
        "hot wallet": min(each.hot_micro - each.leaving_micro for each in (before, after)),
    }
    highest = {
        "vault": max(before.vault_micro, after.vault_micro),
        "hot wallet": max(before.hot_micro, after.hot_micro),
    }
    found = {"vault": vault, "hot wallet": hot}
    if any(not lowest[name] <= held <= highest[name] for name, held in found.items()):
        for credit in credits_unread(net, account=net.hot_account, known=_known_to_hot_wallet):
            highest["hot wallet"] += credit.amount_micro
            if _origin(net, credit) == Account.Kind.DEPOSITS_CLEARING:
                lowest["vault"] -= credit.amount_micro
        arrived = credits_unread(
            net, account=net.vault_account, known=lambda since: deposits_known(net.vault_account, since)
        )
        highest["vault"] += sum(credit.amount_micro for credit in arrived)
    return [
        f"the {name} holds {format_usdc(held)} USDC, the books say {_range(lowest[name], highest[name])}"
        for name, held in found.items()
        if not lowest[name] <= held <= highest[name]
    ]


def _range(lowest: int, highest: int) -> str:
    return format_usdc(lowest) if lowest == highest else f"{format_usdc(lowest)} to {format_usdc(highest)}"


def _balance(rpc: RpcClient, account: str) -> int:
    found = rpc.token_account_balance(account, commitment="finalized")
    return 0 if found is None else found.amount
