from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import segno
from django.db.models import TextChoices

from accounts.models import Party
from billing.models import Deposit, DepositClaim, DepositIntent, ForeignPayment


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


def intents_unpaid(*, since: datetime, limit: int) -> list[DepositIntent]:
    """Intents opened since then under which nothing was credited, the newest first."""
    rows = DepositIntent.objects.filter(created_at__gte=since, deposits__isnull=True)
    return list(rows.select_related("party").order_by("-created_at")[:limit])


class Arrived(TextChoices):
    """What an intent's payments come to, against what was asked for."""

    NOTHING = "nothing"
    EXACT = "exact"
    LESS = "less"
    MORE = "more"
    SOME = "some"
    """No amount was asked for."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One intent as its page shows it. ``missing_micro``: what is still to pay (or was paid too much, negative)."""

    deposits: list[Deposit]
    foreign: list[ForeignPayment]
    arrived: str
    total_micro: int
    missing_micro: int

    @property
    def waits(self) -> bool:
        """Whether the page has to look again by itself."""
        return self.arrived in (Arrived.NOTHING, Arrived.LESS)


def progress_of(intent: DepositIntent) -> Progress:
    """What arrived by an intent. Whatever arrives is credited; the words only say how it compares."""
    deposits = deposits_of_intent(intent)
    total = sum(deposit.amount_micro for deposit in deposits)
    asked = intent.amount_micro
    if not deposits:
        arrived = Arrived.NOTHING
    elif asked is None:
        arrived = Arrived.SOME
    else:
        arrived = Arrived.EXACT if total == asked else Arrived.LESS if total < asked else Arrived.MORE
    foreign = list(ForeignPayment.objects.filter(intent=intent).order_by("created_at"))
    return Progress(deposits, foreign, arrived.value, total, 0 if asked is None else asked - total)


def claims_of(party: Party, *, limit: int = 20) -> list[DepositClaim]:
    """The party's claims that people decide or have decided; a text that nobody signed is none."""
    rows = DepositClaim.objects.filter(party=party).exclude(
        kind=DepositClaim.Kind.WALLET, state=DepositClaim.State.OPEN
    )
    return list(rows.order_by("-created_at")[:limit])


def claim_of(party: Party, claim_id: UUID) -> DepositClaim | None:
    """The party's own claim; None for one that is not theirs or not there."""
    return DepositClaim.objects.filter(party=party, pk=claim_id).first()
