"""Jobs and listings in the operator's admin: to look at, with a few actions that call services. Forms change nothing.

What a job runs (command, environment, output) is the customer's and is not shown here; secrets never are.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.models import User
from core import clock
from core.admin import ReadOnlyAdmin, ReadOnlyInline
from core.errors import DomainError
from core.money import format_usdc, parse_usdc
from core.verbs import ReasonForm, Verb, VerbsAdmin
from marketplace import services
from marketplace.models import (
    Attempt,
    AttemptEvidence,
    Charge,
    Dispute,
    Job,
    Listing,
    MarketPrice,
    Rate,
    Rental,
    RentalGpu,
)


class OperatedAdmin(ReadOnlyAdmin):
    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Who may run the actions below: staff with the permission to change jobs or listings."""
        return request.user.has_perm(f"marketplace.change_{self.model._meta.model_name}")


class AttemptInline(ReadOnlyInline):
    model = Attempt
    fields = ("number", "status", "machine", "provider", "reason", "exit_code", "started_at", "ended_at", "lease_until")


@admin.register(Job)
class JobAdmin(OperatedAdmin):
    list_display = ("id", "customer", "status", "reason", "waiting", "gpu_count", "gpu_model", "queued_at", "ended_at")
    list_filter = ("status", "reason", "waiting")
    list_select_related = ("customer", "gpu_model")
    search_fields = ("id", "customer__handle")
    fields = (
        "id",
        "customer",
        "status",
        "reason",
        "waiting",
        "image",
        "gpu_count",
        "gpu_model",
        "listing",
        "max_rate_micro",
        "disk_gb",
        "time_limit_s",
        "disconnect_grace_s",
        "max_attempts",
        "queued_at",
        "cancel_requested_at",
        "ended_at",
    )
    inlines = (AttemptInline,)
    actions = ("stop", "stop_all_of_the_customer")

    @admin.action(description=_("Stop these jobs"), permissions=["operate"])
    def stop(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        for job in queryset:
            services.job_cancel(job=job, actor=request.user, now=clock.now(), reason="platform_stop")
        messages.success(request, _("Ordered to stop: %(count)d jobs.") % {"count": len(queryset)})

    @admin.action(description=_("Stop every job of these customers"), permissions=["operate"])
    def stop_all_of_the_customer(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        customers = set(queryset.values_list("customer_id", flat=True))
        count = sum(
            services.jobs_stop(customer_id=customer, actor=request.user, now=clock.now()) for customer in customers
        )
        messages.success(request, _("Ordered to stop: %(count)d jobs.") % {"count": count})


class EvidenceInline(ReadOnlyInline):
    model = AttemptEvidence
    fields = ("code", "machine", "boot_id", "report", "received_at")


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = ("id", "job", "number", "status", "machine", "reason", "kept_gpus", "lease_until", "confirmed_at")
    list_filter = ("status", "reason", "kept_gpus")
    list_select_related = ("job", "machine")
    search_fields = ("id", "job__id", "machine__id")
    fields = (
        "id",
        "job",
        "number",
        "machine",
        "provider",
        "status",
        "reason",
        "message_code",
        "exit_code",
        "boot_id",
        "lease_until",
        "taken_up_at",
        "started_at",
        "confirmed_at",
        "confirmed_elapsed_s",
        "stop_requested_at",
        "stop_reason",
        "ended_at",
        "kept_gpus",
        "log_bytes",
    )
    inlines = (EvidenceInline,)


@admin.register(Listing)
class ListingAdmin(OperatedAdmin):
    list_display = ("machine", "gpu_model", "provider", "rate", "gpus_free", "gpus_total", "visible", "hidden_reason")
    list_filter = ("visible", "hidden_reason", "tier", "region", "gpu_model")
    list_select_related = ("machine", "gpu_model", "provider")
    search_fields = ("id", "machine__id", "machine__name", "provider__party__handle")
    fields = (
        "machine",
        "gpu_model",
        "provider",
        "rate_micro",
        "gpus_total",
        "gpus_free",
        "visible",
        "hidden_reason",
        "hidden_detail",
        "reliability",
        "evidence_hours",
        "health_percent",
        "performance_index",
        "country",
        "region",
        "tier",
        "open_until",
        "rank",
        "updated_at",
    )
    actions = ("refresh",)

    @admin.display(description="USDC", ordering="rate_micro")
    def rate(self, row: Listing) -> str:
        return "–" if row.rate_micro is None else format_usdc(row.rate_micro)

    @admin.action(description=_("Compute these listings anew"), permissions=["operate"])
    def refresh(self, request: HttpRequest, queryset: QuerySet[Listing]) -> None:
        machines = set(queryset.values_list("machine_id", flat=True))
        for machine_id in machines:
            services.listings_refresh(machine_id=machine_id, now=clock.now())
        messages.success(request, _("Computed anew: %(count)d machines.") % {"count": len(machines)})


class ChargeInline(ReadOnlyInline):
    model = Charge
    fields = ("source", "from_seconds", "to_seconds", "amount_micro", "posted_at")


class RentalGpuInline(ReadOnlyInline):
    model = RentalGpu
    fields = ("gpu",)


@admin.register(Rental)
class RentalAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        "customer",
        "provider",
        "gpu_model",
        "gpus",
        "rate",
        "billed_seconds",
        "charged",
        "settled_at",
    )
    list_filter = ("gpu_model",)
    list_select_related = ("customer", "provider", "gpu_model")
    search_fields = ("id", "customer__handle", "provider__party__handle")
    fields = (
        "id",
        "attempt",
        "customer",
        "provider",
        "gpu_model",
        "gpus",
        "rate_micro",
        "fee_bps",
        "covered_micro",
        "started_at",
        "ended_at",
        "billed_seconds",
        "charged_micro",
        "credited_micro",
        "settled_at",
    )
    inlines = (RentalGpuInline, ChargeInline)

    @admin.display(description="USDC / GPU-h", ordering="rate_micro")
    def rate(self, row: Rental) -> str:
        return format_usdc(row.rate_micro)

    @admin.display(description="USDC", ordering="charged_micro")
    def charged(self, row: Rental) -> str:
        return format_usdc(row.charged_micro)


@admin.register(Rate)
class RateAdmin(ReadOnlyAdmin):
    list_display = ("provider", "gpu_model", "machine", "rate_micro", "set_at", "set_by")
    list_filter = ("gpu_model",)
    list_select_related = ("provider", "gpu_model", "machine", "set_by")
    search_fields = ("provider__party__handle",)
    fields = ("provider", "gpu_model", "machine", "rate_micro", "set_at", "set_by")


@admin.register(MarketPrice)
class MarketPriceAdmin(ReadOnlyAdmin):
    list_display = ("gpu_model", "region", "p25_micro", "median_micro", "p75_micro", "providers", "computed_at")
    list_filter = ("region", "gpu_model")
    list_select_related = ("gpu_model",)
    fields = ("gpu_model", "region", "p25_micro", "median_micro", "p75_micro", "providers", "computed_at")


class RefundForm(ReasonForm):
    """How much goes back, and why. Both sides read the reason."""

    refund = forms.CharField(
        label=_("Give back, in USDC"),
        max_length=24,
        help_text=_(
            "At most what is disputed. Customer and provider both read the reason: name neither of them in it."
        ),
        widget=UnfoldAdminTextInputWidget(),
    )
    field_order = ("refund", "reason")

    def __init__(self, *args: Any, subject: Dispute, **options: Any) -> None:
        super().__init__(*args, subject=subject, **options)
        self.fields["refund"].initial = format_usdc(subject.disputed_micro).replace(",", "")

    def clean_refund(self) -> int:
        try:
            refund = parse_usdc(self.cleaned_data["refund"], field="refund")
        except DomainError as error:
            raise forms.ValidationError(error.fields["refund"]) from None
        if refund <= 0:
            raise forms.ValidationError(_("To give back nothing, refuse the dispute."))
        return refund


def _grant(dispute: Dispute, actor: User, values: dict[str, Any]) -> None:
    services.dispute_decide(
        dispute=dispute, refund_micro=values["refund"], reason=values["reason"], actor=actor, now=clock.now()
    )


def _refuse(dispute: Dispute, actor: User, values: dict[str, Any]) -> None:
    services.dispute_decide(dispute=dispute, refund_micro=0, reason=values["reason"], actor=actor, now=clock.now())


@admin.register(Dispute)
class DisputeAdmin(VerbsAdmin):
    list_display = ("created_at", "status", "kind", "disputed", "refund", "customer", "seller", "decided_at")
    list_filter = ("status", "kind")
    list_select_related = ("customer", "provider__party")
    search_fields = ("id", "attempt__id", "customer__handle", "provider__party__handle")
    ordering = ("-created_at",)
    fields = (
        *("id", "attempt", "customer", "provider", "kind", "words", "disputed", "created_at", "opened_by"),
        *("status", "refund", "reason", "decided_at", "decided_by"),
    )
    readonly_fields = ("disputed", "refund")
    verbs = (
        Verb(
            "grant",
            _("Give money back"),
            _grant,
            lambda dispute: dispute.status == Dispute.Status.OPEN,
            RefundForm,
            _("Provider and platform bear it in proportion; a provider who was paid already owes it."),
        ),
        Verb(
            "refuse",
            _("Refuse the dispute"),
            _refuse,
            lambda dispute: dispute.status == Dispute.Status.OPEN,
            ReasonForm,
            _("Nothing moves. Customer and provider both read the reason: name neither of them in it."),
        ),
    )

    @admin.display(description=_("Provider"), ordering="provider__party__handle")
    def seller(self, row: Dispute) -> str:
        return row.provider.party.handle

    @admin.display(description=_("Disputed, USDC"), ordering="disputed_micro")
    def disputed(self, row: Dispute) -> str:
        return format_usdc(row.disputed_micro, places=6)

    @admin.display(description=_("Given back, USDC"), ordering="refund_micro")
    def refund(self, row: Dispute) -> str:
        return "–" if row.refund_micro is None else format_usdc(row.refund_micro, places=6)
