"""Reading what reached one of our token accounts: page by page, told by two endpoints, from a cursor of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from billing.chain.deposits import (
    OVERLAP_SLOTS,
    Credit,
    CreditPage,
    DepositCursor,
    credit_confirmed_by,
    credits_read,
)
from billing.chain.errors import HistoryIncomplete, RpcError
from billing.models import ReaderCursor
from billing.services.network import Network

log = structlog.get_logger(__name__)

PAGES_PER_READ = 10
"""Bounds one job; the next one, seconds later, reads on."""

Known = Callable[[int], set[str]]
"""The signatures that the books have from a slot on (or that need no look)."""
Record = Callable[[Credit, datetime], bool]
"""Puts a credit into the books, in a transaction of its own; False when it was there."""


def credits_take(net: Network, *, account: str, known: Known, record: Record, now: datetime) -> int:
    """Record what reached ``account`` since the last time; returns how much was new.

    May run beside itself. A node that is silent or hides history moves nothing: the cursor stays where it was.
    """
    found = 0
    try:
        for _ in range(PAGES_PER_READ):
            page, recorded = _take_page(net, account, known, record, now)
            found += recorded
            if not page.more:
                break
    except (HistoryIncomplete, RpcError) as error:
        log.warning("credits_not_read", account=account, reason=str(error))
    return found


def credits_unread(net: Network, *, account: str, known: Known) -> list[Credit]:
    """What the first endpoint shows beyond the books, unrecorded: at most one page. Raises HistoryIncomplete, RpcError."""
    row = ReaderCursor.objects.filter(account=account).first()
    return _arrived(_page(net, account, _cursor(row), known))


def _take_page(net: Network, account: str, known: Known, record: Record, now: datetime) -> tuple[CreditPage, int]:
    row = ReaderCursor.objects.filter(account=account).first()
    cursor = _cursor(row)
    page = _page(net, account, cursor, known)
    fresh = _arrived(page)
    agreed = [credit for credit in fresh if credit_confirmed_by(net.second, credit)]
    recorded = sum(record(credit, now) for credit in agreed)
    if len(agreed) < len(fresh):
        # The second endpoint may only be late: what it does not know yet is read again, so the cursor waits for it.
        log.warning("credits_not_agreed", account=account, missing=len(fresh) - len(agreed))
        return CreditPage(page.credits, cursor, more=False), recorded
    if page.cursor is not None and page.cursor != cursor:
        _move_cursor(account, row, page.cursor, now)
    return page, recorded


def _page(net: Network, account: str, cursor: DepositCursor | None, known: Known) -> CreditPage:
    since = 0 if cursor is None else cursor.slot - OVERLAP_SLOTS
    return credits_read(net.primary, token_account=account, mint=net.mint, cursor=cursor, known=known(since))


def _cursor(row: ReaderCursor | None) -> DepositCursor | None:
    """Where to read on; None (from the beginning) also for an account that is watched and had nothing to read yet."""
    return None if row is None or not row.signature else DepositCursor(row.slot, row.signature)


def _arrived(page: CreditPage) -> list[Credit]:
    return [credit for credit in page.credits if not credit.failed and credit.amount_micro > 0]


def _move_cursor(account: str, row: ReaderCursor | None, to: DepositCursor, now: datetime) -> None:
    """Move the cursor on, unless a twin has moved it meanwhile: then it stands at least where we would put it."""
    values = {"signature": to.signature, "slot": to.slot, "read_at": now}
    if row is None:
        ReaderCursor.objects.get_or_create(account=account, defaults=values)
    else:
        ReaderCursor.objects.filter(account=account, signature=row.signature).update(**values)
