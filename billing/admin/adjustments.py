"""Corrections by hand, by two people; and the audit trail: who did what with money, when, why."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from accounts.models import Party, User
from billing import services
from billing.models import Account, Adjustment, AuditEntry
from core import clock
from core.admin import ReadOnlyAdmin
from core.errors import DomainError
from core.money import format_usdc, parse_usdc
from core.verbs import ConfirmForm, ReasonForm, Verb, VerbsAdmin

Values = dict[str, Any]
KINDS = [(kind.value, kind.label) for kind in Adjustment.ACCOUNTS]


class AdjustmentForm(ConfirmForm):
    party = forms.CharField(label=_("Party"), help_text=_("Its handle."), widget=UnfoldAdminTextInputWidget())
    kind = forms.ChoiceField(label=_("Balance"), choices=KINDS, widget=UnfoldAdminSelectWidget(choices=KINDS))
    amount = forms.CharField(
        label=_("Amount in USDC"),
        max_length=20,
        help_text=_("Positive gives, negative takes: -12.50. At most 1,000, and 5,000 by all adjustments of 24 hours."),
        widget=UnfoldAdminTextInputWidget(),
    )
    reason = forms.CharField(
        label=_("Reason"),
        max_length=200,
        help_text=_("The owner of the balance reads this in history and statements."),
        widget=UnfoldAdminTextInputWidget(),
    )
    evidence = forms.CharField(
        label=_("Evidence"),
        max_length=500,
        help_text=_("Where the proof lies: a ticket, a transaction, a job. Staff only."),
        widget=UnfoldAdminTextareaWidget(),
    )

    def clean_party(self) -> Party:
        handle = self.cleaned_data["party"].strip()
        found = Party.objects.filter(handle=handle).first()
        if found is None:
            raise forms.ValidationError(_("Found %(found)s; allowed: the handle of a party.") % {"found": handle})
        return found

    def clean_amount(self) -> int:
        try:
            return parse_usdc(self.cleaned_data["amount"])
        except DomainError as error:
            raise forms.ValidationError(error.fields["amount"]) from error


def _propose(_subject: None, actor: User, values: Values) -> object:
    amount_micro = values.pop("amount")
    return services.adjustment_propose(amount_micro=amount_micro, actor=actor, now=clock.now(), **values)


def _confirm(adjustment: Adjustment, actor: User, values: Values) -> object:
    return services.adjustment_confirm(adjustment=adjustment, actor=actor, now=clock.now())


def _refuse(adjustment: Adjustment, actor: User, values: Values) -> object:
    return services.adjustment_refuse(adjustment=adjustment, reason=values["reason"], actor=actor, now=clock.now())


def _waits(adjustment: Adjustment) -> bool:
    return adjustment.state == Adjustment.State.PROPOSED


@admin.register(Adjustment)
class AdjustmentAdmin(VerbsAdmin):
    list_display = ("created_at", "party", "balance", "usdc", "state", "reason", "proposed_by", "decided_by")
    list_filter = ("state", "account__kind")
    list_select_related = ("account__owner", "proposed_by", "decided_by")
    search_fields = ("account__owner__handle", "reason", "evidence", "=id")
    ordering = ("-created_at",)
    fields = (
        *("party", "balance", "usdc", "balance_now", "balance_then", "reason", "evidence", "proposed_by", "created_at"),
        *("state", "decided_by", "decided_at", "refusal", "transfer"),
    )
    readonly_fields = ("party", "balance", "usdc", "balance_now", "balance_then")
    list_verbs = (
        Verb(
            "propose",
            _("Propose an adjustment"),
            _propose,
            bool,
            AdjustmentForm,
            _("Nothing moves until a second person confirms it."),
            permission="add_adjustment",
        ),
    )
    verbs = (
        Verb(
            "confirm",
            _("Confirm and post"),
            _confirm,
            _waits,
            ConfirmForm,
            _("Somebody else than who proposed it, after a look at the evidence. It is posted at once."),
        ),
        Verb("refuse", _("Refuse"), _refuse, _waits, ReasonForm, _("It stays here with your reason. Nothing moves.")),
    )

    @admin.display(description=_("Party"), ordering="account__owner__handle")
    def party(self, row: Adjustment) -> object:
        return row.account.owner

    @admin.display(description=_("Balance"))
    def balance(self, row: Adjustment) -> str:
        return str(Account.Kind(row.account.kind).label)

    @admin.display(description="USDC", ordering="amount_micro")
    def usdc(self, row: Adjustment) -> str:
        return ("+" if row.amount_micro > 0 else "") + format_usdc(row.amount_micro)

    @admin.display(description=_("Balance now"))
    def balance_now(self, row: Adjustment) -> str:
        return f"{format_usdc(row.account.balance)} USDC"

    @admin.display(description=_("Balance after it"))
    def balance_then(self, row: Adjustment) -> str:
        return f"{format_usdc(row.account.balance + row.amount_micro)} USDC" if _waits(row) else "–"


VERBS = {
    "adjustment_propose": _("Proposed an adjustment"),
    "adjustment_confirm": _("Confirmed an adjustment"),
    "adjustment_refuse": _("Refused an adjustment"),
    "dispute_decide": _("Decided a dispute"),
    "claim_confirm": _("Confirmed whose a deposit is"),
    "claim_decline": _("Declined a claim on a deposit"),
    "claim_propose": _("Proposed whose a deposit is"),
    "bank_decision_confirm": _("Confirmed a bank decision"),
    "bank_decision_propose": _("Proposed a bank decision"),
    "bank_file_approve": _("Approved a payment file"),
    "bank_file_make": _("Made a payment file"),
    "bank_message_import": _("Took in a file from the bank"),
    "destination_freeze_clear": _("Cleared a payee's freeze"),
    "destination_set": _("Set a payout destination"),
    "eur_rate_confirm": _("Confirmed a euro rate"),
    "eur_rate_enter": _("Entered a euro rate"),
    "fee_rate_set": _("Set the platform fee"),
    "payment_adopt": _("Booked a payment that the chain has"),
    "payout_approve": _("Approved a payout"),
    "payout_cancel": _("Cancelled a payout"),
    "payout_hold_release": _("Released a payee's hold"),
    "payout_resolve": _("Looked again at an unknown payout"),
    "payouts_freeze": _("Froze or thawed payouts"),
    "payouts_match": _("Matched the chain with the books"),
    "payouts_run": _("Planned payout runs"),
    "policy_set": _("Set a policy"),
    "spend_limits_set": _("Set a spend limit"),
}


class VerbFilter(admin.SimpleListFilter):
    """By what was done. From the list above: the table itself is not searched for its verbs."""

    title = _("deed")
    parameter_name = "verb"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(VERBS.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        return queryset.filter(verb=self.value()) if self.value() else queryset


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """Who did what with money: before, after, why."""

    list_display = ("at", "who", "deed", "party", "subject", "was", "is_now", "reason")
    list_filter = (VerbFilter, ("at", admin.DateFieldListFilter))
    list_select_related = ("user", "party")
    search_fields = ("user__email", "actor", "party__handle", "=subject_id", "verb", "reason")
    ordering = ("-id",)
    fields = ("at", "who", "deed", "verb", "party", "subject", "was", "is_now", "reason")
    readonly_fields = ("who", "deed", "subject", "was", "is_now")

    @admin.display(description=_("Who"), ordering="user__email")
    def who(self, row: AuditEntry) -> str:
        return row.user.email if row.user else row.actor

    @admin.display(description=_("Deed"), ordering="verb")
    def deed(self, row: AuditEntry) -> object:
        return VERBS.get(row.verb, row.verb)

    @admin.display(description=_("Before"))
    def was(self, row: AuditEntry) -> str:
        return _facts(row.before)

    @admin.display(description=_("After"))
    def is_now(self, row: AuditEntry) -> str:
        return _facts(row.after)

    @admin.display(description=_("Subject"))
    def subject(self, row: AuditEntry) -> str:
        name = row.subject_type.partition(".")[2]
        try:
            page = reverse(f"admin:{row.subject_type.replace('.', '_')}_change", args=[row.subject_id])
        except NoReverseMatch:
            return f"{name} {row.subject_id}"
        return format_html('<a class="underline" href="{}">{} {}</a>', page, name, row.subject_id.rsplit("-", 1)[-1])


def _facts(facts: dict[str, Any]) -> str:
    """One fact a line; what is not known is not shown. One element: a phone's cell lays its children side by side."""
    known = [(_name(name), _value(name, value)) for name, value in facts.items() if value is not None]
    return format_html("<div>{}</div>", format_html_join("", "<div>{}: {}</div>", known)) if known else "–"


def _name(name: str) -> str:
    return name.removesuffix("_micro").replace("_", " ")


def _value(name: str, value: Any) -> str:
    return f"{format_usdc(value)} USDC" if name.endswith("_micro") and name != "reference_micro" else str(value)
