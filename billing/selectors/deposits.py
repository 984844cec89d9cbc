from __future__ import annotations

from uuid import UUID

import segno

from accounts.models import Party
from billing.models import Deposit, DepositIntent


def pay_qr(url: str) -> str:
    """The link as an SVG image to put into the page; black on white in every theme, or phones cannot read it."""
    return segno.make(url, error="m").svg_inline(border=4, dark="#000", light="#fff", omitsize=True)


def intent_of(party: Party, intent_id: UUID) -> DepositIntent | None:
    """The party's own intent; None for one that is not theirs or not there."""
    return DepositIntent.objects.filter(party=party, pk=intent_id).first()


def deposits_of_intent(intent: DepositIntent) -> list[Deposit]:
    return list(Deposit.objects.filter(intent=intent).order_by("created_at"))


def deposits_of(party: Party, *, limit: int = 20) -> list[Deposit]:
    return list(Deposit.objects.filter(party=party).select_related("intent").order_by("-created_at")[:limit])
