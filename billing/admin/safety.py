"""What stops payouts, for staff: freezes and holds of single payees, and the look at the chain after a restore."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.models import User
from billing import services
from billing.models import ChainMatch, DestinationFreeze, PayoutHold
from core import clock
from core.money import format_usdc
from core.verbs import ConfirmForm, ReasonForm, Verb, VerbsAdmin

Values = dict[str, Any]
SIGNATURE_MAX = 88


def _clear(freeze: DestinationFreeze, actor: User, values: Values) -> object:
    return services.destination_freeze_clear(freeze=freeze, actor=actor, reason=values["reason"], now=clock.now())


def _release(hold: PayoutHold, actor: User, values: Values) -> object:
    return services.payout_hold_release(source=hold.source, actor=actor, now=clock.now())


def _match(_subject: None, actor: User, values: Values) -> object:
    return services.payouts_match(now=clock.now(), actor=actor)


def _adopt(match: ChainMatch, actor: User, values: Values) -> object:
    return services.payment_adopt(signature=values["signature"], actor=actor, reason=values["reason"], now=clock.now())


@admin.register(DestinationFreeze)
class DestinationFreezeAdmin(VerbsAdmin):
    list_display = ("party", "created_at", "cleared_at", "cleared_by")
    list_filter = (("cleared_at", admin.EmptyFieldListFilter),)
    search_fields = ("party__handle",)
    list_select_related = ("party", "cleared_by")
    ordering = ("-created_at",)
    fields = ("id", "party", "destination", "created_at", "cleared_at", "cleared_by", "reason")
    verbs = (
        Verb(
            "clear",
            _("Clear the freeze"),
            _clear,
            lambda freeze: freeze.cleared_at is None,
            ReasonForm,
            _(
                "Speak with the payee first, by a way that the log-in does not lead to. Payouts go on to the present address."
            ),
            permission="change_destination",
        ),
    )


@admin.register(PayoutHold)
class PayoutHoldAdmin(VerbsAdmin):
    list_display = ("party", "reason", "source", "created_at", "released_at")
    list_filter = (("released_at", admin.EmptyFieldListFilter),)
    search_fields = ("party__handle", "source")
    list_select_related = ("party",)
    ordering = ("-created_at",)
    fields = ("id", "party", "reason", "source", "created_at", "released_at")
    verbs = (
        Verb(
            "release",
            _("Release the hold"),
            _release,
            lambda hold: hold.released_at is None,
            ConfirmForm,
            _("The next payout run pays what is payable."),
            permission="change_payout",
        ),
    )


class AdoptForm(ReasonForm):
    signature = forms.CharField(
        label=_("Transaction signature"), max_length=SIGNATURE_MAX, widget=UnfoldAdminTextInputWidget()
    )
    field_order = ("signature", "reason")


@admin.register(ChainMatch)
class ChainMatchAdmin(VerbsAdmin):
    """Read it from the top: what is forgotten or foreign keeps restored books frozen."""

    list_display = ("created_at", "actor", "matched", "open", "through_slot")
    ordering = ("-created_at",)
    fields = ("id", "created_at", "actor", "matched", "open", "through_slot")
    change_form_before_template = "billing/admin/match.html"
    verbs = (
        Verb(
            "book",
            _("Book a payment that the chain has"),
            _adopt,
            lambda match: match.open > 0,
            AdoptForm,
            _(
                "A forgotten payout is settled by it; a foreign payment is taken from what its payee is owed. Then match again."
            ),
            permission="change_payout",
        ),
    )
    list_verbs = (
        Verb(
            "match",
            _("Match the chain now"),
            _match,
            lambda _subject: True,
            ConfirmForm,
            _("Every payment of the hot wallet, as both nodes tell it, is held against the books. It moves nothing."),
            permission="change_payout",
        ),
    )

    def page_context(self, subject: ChainMatch) -> dict[str, Any]:
        return {
            "findings": [finding | {"usdc": format_usdc(finding["amount_micro"])} for finding in subject.findings],
        }
