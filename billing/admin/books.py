"""Money, to look at. Nothing here is changed by a form; the few actions call the services that the rest of the house calls."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSingleDateWidget

from accounts.models import User
from accounts.reauthentication import second_factor_missing
from billing import services
from billing.admin.bank import LineInline
from billing.models import (
    Account,
    Deposit,
    Destination,
    Document,
    FeeRate,
    Hold,
    Payout,
    PayoutAttempt,
    PayoutRun,
    PayoutSwitch,
    PolicyRow,
    Posting,
    Rail,
    Transfer,
)
from billing.rails.base import masked
from billing.states import PAYOUT
from core import clock
from core.admin import ReadOnlyAdmin, ReadOnlyInline
from core.errors import DomainError
from core.forms import add_domain_error
from core.money import format_usdc
from core.verbs import ConfirmForm, ReasonForm, Verb, VerbsAdmin


class _Amount:
    @admin.display(description="USDC", ordering="amount_micro")
    def usdc(self, row: Any) -> str:
        return format_usdc(row.amount_micro)


@admin.register(Account)
class AccountAdmin(ReadOnlyAdmin):
    list_display = ("kind", "owner", "asset", "live", "balance", "held", "min_balance")
    list_filter = ("kind", "asset")
    search_fields = ("owner__handle",)
    list_select_related = ("owner",)
    fields = ("owner", "kind", "asset", "live", "min_balance", "balance", "held", "created_at")


class PostingInline(ReadOnlyInline):
    model = Posting
    fields = ("account", "amount")
    beside = ("account",)


@admin.register(Transfer)
class TransferAdmin(ReadOnlyAdmin):
    list_display = ("source", "kind", "effective_at", "created_at")
    list_filter = ("kind",)
    search_fields = ("source",)
    ordering = ("-created_at",)
    fields = ("id", "source", "kind", "effective_at", "created_at")
    inlines = (PostingInline,)


@admin.register(Hold)
class HoldAdmin(_Amount, ReadOnlyAdmin):
    list_display = ("source", "account", "usdc", "state", "created_at", "closed_at")
    list_filter = ("state",)
    search_fields = ("source", "account__owner__handle")
    list_select_related = ("account",)
    ordering = ("-created_at",)
    fields = ("id", "source", "account", "placed_micro", "amount_micro", "captured_micro", "state", "closed_at")


@admin.register(Deposit)
class DepositAdmin(_Amount, ReadOnlyAdmin):
    """The suspense queue is this list, filtered by state."""

    list_display = ("created_at", "usdc", "party", "state", "reason", "sender", "signature")
    list_filter = ("state", "reason")
    search_fields = ("signature", "sender", "party__handle", "intent__reference")
    list_select_related = ("party",)
    ordering = ("-created_at",)
    fields = (
        *("id", "signature", "account", "slot", "block_time", "amount_micro", "sender"),
        *("party", "intent", "state", "reason", "transfer", "created_at"),
    )


def _show_destination(destination: Destination, actor: User, values: dict[str, Any]) -> str:
    found = services.destination_show(destination_id=destination.pk, actor=actor, now=clock.now())
    return f"{found.holder} {found.address}".strip()


class _To:
    """Where money goes: of a bank account no more than is needed to recognise it."""

    @admin.display(description=_("To"))
    def to(self, row: Any) -> str:
        return masked(row.address) if row.rail == Rail.BANK else row.address


@admin.register(Document)
class DocumentAdmin(ReadOnlyAdmin):
    """Receipts and statements as they were issued."""

    list_display = ("label", "kind", "party", "period_start", "period_end", "total", "issued_at")
    list_filter = ("kind", "series")
    search_fields = ("party__handle", "deposit__signature", "payout__id")
    list_select_related = ("party",)
    ordering = ("-issued_at", "-number")
    fields = (
        *("id", "label", "kind", "party", "issued_at", "period_start", "period_end", "total_micro"),
        *("deposit", "payout", "facts"),
    )

    @admin.display(description="USDC", ordering="total_micro")
    def total(self, row: Document) -> str:
        return format_usdc(row.total_micro)


@admin.register(Destination)
class DestinationAdmin(_To, VerbsAdmin):
    list_display = ("party", "rail", "to", "state", "usable_from", "created_at")
    list_filter = ("state", "rail")
    search_fields = ("party__handle", "=address")
    list_select_related = ("party",)
    ordering = ("-created_at",)
    fields = ("id", "party", "rail", "to", "state", "usable_from", "created_at")
    readonly_fields = ("to",)
    verbs = (
        Verb(
            "show",
            _("Show the account in full"),
            _show_destination,
            lambda destination: destination.rail == Rail.BANK,
            ConfirmForm,
            _("It is written down that you looked."),
            permission="view_destination",
        ),
    )


class PayoutInline(_To, ReadOnlyInline):
    model = Payout
    fields = ("party", "amount_micro", "amount_cents", "rail", "to", "status", "note", "settled_at")
    readonly_fields = ("to",)
    show_change_link = True
    beside = ("party",)


class PlanForm(forms.Form):
    as_of = forms.DateField(
        label=_("As of"),
        help_text=_("Every run due on this day is planned, once."),
        widget=UnfoldAdminSingleDateWidget(),
    )


@admin.register(PayoutRun)
class PayoutRunAdmin(ReadOnlyAdmin):
    """Runs plan themselves on their day; staff may do it by hand when that was missed. Releasing is another matter."""

    list_before_template = "billing/admin/runs.html"
    list_display = ("kind", "period_start", "period_end", "status", "pause_reason", "planned_at", "bank_planned_at")
    list_filter = ("kind", "status")
    ordering = ("-period_start",)
    fields = (
        *("id", "kind", "period_start", "period_end", "status", "pause_reason"),
        *("planned_at", "bank_planned_at", "created_at"),
    )
    inlines = (PayoutInline,)
    actions = ("approve",)

    @admin.action(description=_("Approve all its payouts (a second person releases)"), permissions=["approve"])
    def approve(self, request: HttpRequest, chosen: QuerySet[PayoutRun]) -> HttpResponse | None:
        waiting = Payout.objects.filter(run__in=chosen, status=Payout.Status.AWAITING_RELEASE).order_by("pk")
        return _approve(request, waiting)

    def has_approve_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("billing.add_payoutapproval")

    def get_urls(self) -> list[Any]:
        route = path("plan/", self.admin_site.admin_view(self.plan), name="billing_payoutrun_plan")
        return [route, *super().get_urls()]

    def plan(self, request: HttpRequest) -> HttpResponse:
        if not request.user.has_perm("billing.add_payoutrun"):
            raise PermissionDenied
        now = clock.now()
        form = PlanForm(request.POST or None, initial={"as_of": now.date()})
        if request.method == "POST" and form.is_valid():
            try:
                runs = services.payouts_run(as_of=form.cleaned_data["as_of"], now=now, actor=_staff(request))
            except DomainError as error:
                add_domain_error(form, error)
            else:
                messages.success(request, _("Planned: %(runs)s.") % {"runs": ", ".join(str(run) for run in runs)})
                return redirect("admin:billing_payoutrun_changelist")
        context = {**self.admin_site.each_context(request), "title": _("Plan payout runs"), "form": form}
        return render(request, "billing/admin/plan.html", context)


class AttemptInline(ReadOnlyInline):
    model = PayoutAttempt
    fields = ("n", "state", "signature", "last_valid_block_height", "context_slot", "sends", "error", "fee_lamports")
    unseen = ("message", "raw")


def _cancel(payout: Payout, actor: User, values: dict[str, Any]) -> object:
    return services.payout_cancel(payout=payout, reason=values["reason"], actor=actor, now=clock.now())


def _resolve(payout: Payout, actor: User, values: dict[str, Any]) -> str:
    found = services.payout_resolve(payout=payout, actor=actor, reason=values["reason"], now=clock.now())
    return str(found.status)


@admin.register(Payout)
class PayoutAdmin(_Amount, _To, VerbsAdmin):
    list_display = ("created_at", "party", "usdc", "rail", "to", "status", "note", "settled_at")
    list_filter = ("status", "rail", "run__kind")
    search_fields = ("id", "party__handle", "=address", "attempts__signature", "bank_lines__end_to_end_id")
    list_select_related = ("party",)
    ordering = ("-created_at",)
    actions = ("approve",)
    verbs = (
        Verb(
            "cancel",
            _("Cancel (back to payable)"),
            _cancel,
            lambda payout: not PAYOUT.final(payout.status),
            ReasonForm,
            _("Refused while a signed transaction or the bank may still pay it."),
        ),
        Verb(
            "resolve",
            _("Unknown: look again, act only on proof"),
            _resolve,
            lambda payout: payout.status == Payout.Status.UNKNOWN,
            ReasonForm,
            _("Both nodes are asked once more. Nothing moves without proof."),
        ),
    )
    inlines = (AttemptInline, LineInline)
    readonly_fields = ("to",)
    fields = (
        *("id", "run", "party", "asset", "amount_micro", "amount_cents", "currency", "eur_rate", "rail", "to"),
        *("status", "note"),
        *("next_look_at", "lease_until", "reserve_transfer", "closing_transfer", "settled_at", "created_at"),
    )

    @admin.action(description=_("Approve (a second person releases)"), permissions=["approve"])
    def approve(self, request: HttpRequest, chosen: QuerySet[Payout]) -> HttpResponse | None:
        return _approve(request, chosen)

    def has_approve_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("billing.add_payoutapproval")


@admin.register(PayoutSwitch)
class PayoutSwitchAdmin(ReadOnlyAdmin):
    list_display = ("at", "frozen", "reason", "actor")
    ordering = ("-id",)
    fields = ("at", "frozen", "reason", "actor")


@admin.register(PolicyRow)
class PolicyRowAdmin(ReadOnlyAdmin):
    list_display = ("name", "value", "valid_from", "set_by")
    list_filter = ("name",)
    ordering = ("name", "-valid_from")
    fields = ("name", "value", "valid_from", "set_by")


@admin.register(FeeRate)
class FeeRateAdmin(ReadOnlyAdmin):
    list_display = ("bps", "valid_from", "set_by")
    ordering = ("-valid_from",)
    fields = ("bps", "valid_from", "set_by")


def _approve(request: HttpRequest, payouts: QuerySet[Payout]) -> HttpResponse | None:
    asked = second_factor_missing(request)
    if asked is not None:
        return asked
    for payout in payouts:
        try:
            services.payout_approve(payout=payout, approver=_staff(request), now=clock.now())
        except DomainError as error:
            messages.error(request, f"{payout}: {error.message}")
    return None


def _staff(request: HttpRequest) -> User:
    if not isinstance(request.user, User):
        raise TypeError("an admin action has a person behind it")
    return request.user
