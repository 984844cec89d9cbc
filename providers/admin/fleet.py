"""Providers, machines, GPUs and enrolment tokens: to look at, with the verbs that staff may need."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget

from core import clock
from core.verbs import ConfirmForm, ReasonForm, Verb, VerbsAdmin
from providers import services
from providers.models import EnrolmentToken, Gpu, GpuModel, Machine, Provider
from providers.selectors import machines_short
from providers.shortfalls import SENTENCES
from providers.states import MACHINE_LIVE


def _provider_verb(service: Any) -> Any:
    return lambda provider, actor, values: service(
        provider=provider, actor=actor, reason=values["reason"], now=clock.now()
    )


def _machine_verb(service: Any) -> Any:
    return lambda machine, actor, values: service(
        machine=machine, actor=actor, reason=values["reason"], now=clock.now()
    )


def _in(*statuses: str) -> Any:
    return lambda subject: subject.status in statuses


@admin.register(Provider)
class ProviderAdmin(VerbsAdmin):
    list_display = ("party", "tier", "status", "country", "approved_machines", "joined_at")
    list_filter = ("status", "tier", "country")
    list_select_related = ("party",)
    search_fields = ("party__handle", "party__members__user__email", "application__company")
    ordering = ("-joined_at",)
    fields = (
        "party",
        "application",
        "tier",
        "status",
        "country",
        "region",
        "commitment_months",
        "approved_machines",
        "joined_at",
    )
    verbs = (
        Verb("suspend", _("Suspend"), _provider_verb(services.provider_suspend), _in("active")),
        Verb("reinstate", _("Reinstate"), _provider_verb(services.provider_reinstate), _in("suspended")),
        Verb("close", _("Close for good"), _provider_verb(services.provider_close), _in("active", "suspended")),
    )


class ShortFilter(admin.SimpleListFilter):
    title = _("below its application")
    parameter_name = "short"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("open", _("Not looked at"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Machine]) -> QuerySet[Machine]:
        return queryset.filter(pk__in=machines_short()) if self.value() == "open" else queryset


class AskedFilter(admin.SimpleListFilter):
    title = _("asked for")
    parameter_name = "asked"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("Its owner asks to add it"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Gpu]) -> QuerySet[Gpu]:
        return queryset.filter(requested_at__isnull=False, declined="") if self.value() == "yes" else queryset


def _shortfalls_open(machine: Machine) -> bool:
    return bool(set(machine.shortfalls) - set(machine.shortfalls_accepted))


@admin.register(Machine)
class MachineAdmin(VerbsAdmin):
    list_display = ("name", "provider_handle", "status", "country", "simulated", "agent_version", "enrolled_at")
    list_filter = ("status", ShortFilter, "simulated", "country")
    list_select_related = ("provider__party",)
    search_fields = ("name", "id", "provider__party__handle", "gpus__uuid")
    ordering = ("-enrolled_at",)
    fields = (
        "id",
        "name",
        "provider",
        "status",
        "status_reason",
        "simulated",
        "country",
        "region",
        "agent_version",
        "driver_version",
        "cuda_version",
        "cpu_count",
        "ram_bytes",
        "disk_total_bytes",
        "network_down_mbps",
        "network_up_mbps",
        "below_application",
        "degraded",
        "boot_id",
        "clock_skew_s",
        "rotate_wanted_at",
        "plan_version",
        "enrolled_at",
        "confirmed_at",
        "inventory_at",
    )
    verbs = (
        Verb(
            "quarantine",
            _("Quarantine"),
            _machine_verb(services.machine_quarantine),
            _in("pending_confirmation", "active", "draining"),
            explanation=_("No new jobs until it is released; running ones go on."),
        ),
        Verb("release", _("Release"), _machine_verb(services.machine_unquarantine), _in("quarantined")),
        Verb(
            "revoke",
            _("Revoke"),
            _machine_verb(services.machine_revoke),
            _in("pending_confirmation", "active", "draining", "quarantined"),
            explanation=_("Its credential stops working at once and its jobs are lost. It must enrol again."),
        ),
        Verb(
            "rotate",
            _("Change its credential"),
            lambda machine, actor, _values: services.machine_credential_rotate(
                machine=machine, actor=actor, now=clock.now()
            ),
            _in(*MACHINE_LIVE),
            ConfirmForm,
            explanation=_("It makes a new one within seconds. Whoever has a copy of the old one is locked out then."),
        ),
        Verb(
            "accept-shortfalls",
            _("Accept it as it is"),
            _machine_verb(services.machine_shortfalls_accept),
            _shortfalls_open,
            explanation=_("It has less than was declared, and that is all right."),
        ),
    )

    @admin.display(description=_("below its application"))
    def below_application(self, machine: Machine) -> str:
        return ", ".join(str(SENTENCES.get(code, code)) for code in machine.shortfalls) or "–"

    @admin.display(description=_("provider"))
    def provider_handle(self, machine: Machine) -> str:
        return machine.provider.display_name


class AcceptForm(ReasonForm):
    model = forms.ModelChoiceField(
        label=_("Accept it as"), queryset=GpuModel.objects.order_by("name"), widget=UnfoldAdminSelectWidget()
    )
    field_order = ("model", "reason")

    def __init__(self, *args: Any, subject: Gpu, **options: Any) -> None:
        super().__init__(*args, subject=subject, initial={"model": subject.model_id}, **options)


def _accept(gpu: Gpu, reviewer: Any, values: dict[str, Any]) -> object:
    return services.gpu_accept(gpu=gpu, reviewer=reviewer, now=clock.now(), **values)


def _decline(gpu: Gpu, reviewer: Any, values: dict[str, Any]) -> object:
    return services.gpu_decline(gpu=gpu, reviewer=reviewer, now=clock.now(), **values)


def _asked_for(gpu: Gpu) -> bool:
    return gpu.status == Gpu.Status.NEEDS_REVIEW and gpu.requested_at is not None and not gpu.declined


@admin.register(Gpu)
class GpuAdmin(VerbsAdmin):
    list_display = ("reported_name", "uuid", "machine", "model", "status", "reason", "last_seen_at")
    list_filter = ("status", AskedFilter, "reason", "model")
    list_select_related = ("machine", "model")
    search_fields = ("uuid", "machine__name", "machine__provider__party__handle")
    ordering = ("-last_seen_at",)
    fields = (
        "machine",
        "uuid",
        "model",
        "reported_name",
        "memory_bytes",
        "status",
        "reason",
        "accepted",
        "requested_at",
        "request_note",
        "declined",
        "health",
        "first_seen_at",
        "last_seen_at",
        "details",
    )
    verbs = (
        Verb("accept", _("Accept"), _accept, _in("needs_review"), AcceptForm),
        Verb("decline", _("Decline the request"), _decline, _asked_for),
    )


def _revoke_token(token: EnrolmentToken, _actor: Any, _values: dict[str, Any]) -> None:
    services.enrolment_token_revoke(token=token, now=clock.now())


@admin.register(EnrolmentToken)
class EnrolmentTokenAdmin(VerbsAdmin):
    list_display = ("id", "provider", "uses_left", "uses", "expires_at", "revoked_at", "issued_by")
    list_select_related = ("provider",)
    search_fields = ("provider__party__handle",)
    ordering = ("-created_at",)
    fields = ("provider", "uses", "uses_left", "created_at", "expires_at", "revoked_at", "issued_by")
    verbs = (Verb("revoke", _("Revoke"), _revoke_token, lambda token: token.revoked_at is None, ConfirmForm),)
