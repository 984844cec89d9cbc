"""What of the customers' payments needs people: claims on deposits of nobody, and payments that were no USDC."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from billing import services
from billing.models import Deposit, DepositClaim, ForeignPayment
from billing.models.claim import RIVALS_WAIT
from core import clock
from core.admin import ReadOnlyAdmin
from core.money import format_usdc
from core.verbs import ConfirmForm, ReasonForm, Verb, VerbsAdmin

Values = dict[str, Any]


def _waits(claim: DepositClaim) -> bool:
    return claim.kind == DepositClaim.Kind.EVIDENCE and claim.state == DepositClaim.State.OPEN


def _propose(claim: DepositClaim, actor: User, values: Values) -> object:
    return services.claim_propose(claim=claim, reason=values["reason"], actor=actor, now=clock.now())


def _confirm(claim: DepositClaim, actor: User, values: Values) -> object:
    return services.claim_confirm(claim=claim, actor=actor, now=clock.now())


def _decline(claim: DepositClaim, actor: User, values: Values) -> object:
    return services.claim_decline(claim=claim, reason=values["reason"], actor=actor, now=clock.now())


@admin.register(DepositClaim)
class DepositClaimAdmin(VerbsAdmin):
    """Those by evidence wait for two people, the others are decided by a signature."""

    list_display = (
        "created_at",
        "party",
        "kind",
        "state",
        "waiting_deposit",
        "rivals",
        "decidable_from",
        "proposed_by",
    )
    list_filter = ("state", "kind")
    search_fields = ("signature", "party__handle", "address")
    list_select_related = ("party", "proposed_by")
    ordering = ("-created_at",)
    fields = (
        *("party", "kind", "state", "signature", "waiting_deposit", "rivals", "decidable_from"),
        *("evidence", "address", "proposed_by", "proposed_at", "reason", "confirmed_by", "deposit"),
        *("created_at", "closed_at"),
    )
    readonly_fields = ("waiting_deposit", "rivals", "decidable_from")
    verbs = (
        Verb(
            "propose",
            _("Say that it is theirs"),
            _propose,
            lambda claim: _waits(claim) and claim.proposed_by_id is None,
            ReasonForm,
            _("Nothing moves until a second person confirms it, a week after the claim at the earliest."),
        ),
        Verb(
            "confirm",
            _("Confirm"),
            _confirm,
            lambda claim: _waits(claim) and claim.proposed_by_id is not None,
            ConfirmForm,
            _(
                "Somebody else than who proposed it. The claimant gets the money at once, other claims on it are declined."
            ),
        ),
        Verb(
            "decline",
            _("Decline"),
            _decline,
            _waits,
            ReasonForm,
            _("The claimant is told that it was declined, not why."),
        ),
    )

    @admin.display(description=_("Deposit in suspense"))
    def waiting_deposit(self, claim: DepositClaim) -> str:
        found = Deposit.objects.filter(signature=claim.signature, state=Deposit.State.SUSPENSE).first()
        return (
            "–" if found is None else f"{format_usdc(found.amount_micro)} USDC, {found.created_at:%Y-%m-%d %H:%M} UTC"
        )

    @admin.display(description=_("Others who claim it"))
    def rivals(self, claim: DepositClaim) -> int:
        same = DepositClaim.objects.filter(signature=claim.signature, kind=DepositClaim.Kind.EVIDENCE)
        return same.exclude(party=claim.party_id).count()

    @admin.display(description=_("Can be decided from"))
    def decidable_from(self, claim: DepositClaim) -> str:
        if claim.kind != DepositClaim.Kind.EVIDENCE:
            return "–"
        return f"{claim.created_at + RIVALS_WAIT:%Y-%m-%d %H:%M} UTC"


@admin.register(ForeignPayment)
class ForeignPaymentAdmin(ReadOnlyAdmin):
    """Other tokens, and SOL, that came with one of our references. They lie in the vault's wallet and in nobody's books."""

    list_display = ("created_at", "customer", "mint", "amount", "sender", "signature")
    list_filter = ("mint",)
    search_fields = ("signature", "sender", "intent__party__handle", "intent__reference")
    list_select_related = ("intent__party",)
    ordering = ("-created_at",)
    fields = ("customer", "intent", "mint", "amount", "signature", "slot", "block_time", "sender", "created_at")
    readonly_fields = ("customer",)

    @admin.display(description=_("Customer"))
    def customer(self, payment: ForeignPayment) -> str:
        return payment.intent.party.handle
