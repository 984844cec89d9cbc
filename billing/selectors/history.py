from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import Party
from billing.models import USDC, Account, Hold, Posting, Transfer
from core.cursors import cursor_decode, cursor_encode

PAGE = 25
SCOPE = "billing:history"

WORDS: dict[str, str | Promise] = {
    Transfer.Kind.DEPOSIT.value: _("Deposit"),
    Transfer.Kind.USAGE.value: _("GPU usage"),
    Transfer.Kind.SERVICE_CREDIT.value: _("Service credit"),
    Transfer.Kind.DEPOSIT_CLAIMED.value: _("Deposit"),
    Transfer.Kind.WITHDRAWAL_RESERVED.value: _("Withdrawal"),
    Transfer.Kind.WITHDRAWAL_CANCELLED.value: _("Withdrawal that was cancelled"),
    Transfer.Kind.DISPUTE.value: _("Given back after a dispute"),
    Transfer.Kind.ADJUSTMENT.value: _("Adjustment"),
}


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One change of a customer's balance; ``source`` says of what (``usage:<rental>:<n>``, ``deposit:<signature>:…``).

    ``note``: why somebody adjusted it by hand; empty for everything else."""

    at: datetime
    kind: str
    amount_micro: int
    source: str
    transfer_id: UUID
    note: str = ""

    @property
    def words(self) -> str:
        return str(WORDS.get(self.kind, self.kind))


def customer_history(party: Party, *, cursor: str = "") -> tuple[list[HistoryRow], str | None]:
    """A page of a customer's history, newest first, and the next page's cursor. Raises Invalid (field cursor)."""
    rows = Posting.objects.filter(account__owner=party, account__kind=Account.Kind.CUSTOMER, account__asset=USDC)
    if cursor:
        (before,) = cursor_decode(cursor, scope=SCOPE)
        rows = rows.filter(pk__lt=before)
    found = list(rows.select_related("transfer__adjustment").order_by("-pk")[: PAGE + 1])
    following = cursor_encode([found[PAGE - 1].pk], scope=SCOPE) if len(found) > PAGE else None
    return [_row(posting) for posting in found[:PAGE]], following


def _row(posting: Posting) -> HistoryRow:
    about = posting.transfer
    return HistoryRow(about.effective_at, about.kind, posting.amount, about.source, about.pk, adjustment_reason(about))


def adjustment_reason(transfer: Transfer) -> str:
    """Why somebody adjusted a balance by this transfer; empty for every other one. Load it with ``transfer__adjustment``."""
    return transfer.adjustment.reason if hasattr(transfer, "adjustment") else ""


@dataclass(frozen=True, slots=True)
class HeldRow:
    """Money set aside since ``at``; ``source`` says for what."""

    source: str
    at: datetime
    amount_micro: int


def holds_of(party: Party) -> list[HeldRow]:
    """What is set aside for running jobs."""
    held = Hold.objects.filter(account__owner=party, account__kind=Account.Kind.CUSTOMER, state=Hold.State.OPEN)
    rows = held.filter(amount_micro__gt=0).order_by("-created_at")
    return [HeldRow(row.source, row.created_at, row.amount_micro) for row in rows]


def holds_open(prefix: str) -> set[str]:
    """The sources of all open holds that begin with ``prefix``."""
    return set(Hold.objects.filter(state=Hold.State.OPEN, source__startswith=prefix).values_list("source", flat=True))
