"""The review queue: oldest first, with its age against the promise, the rules' checks and one page per decision."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
)

from core import clock
from core.verbs import ReasonForm, Verb, VerbsAdmin
from providers import services
from providers.models import Application, Tier
from providers.selectors import application_checks, application_proposal, application_timeline, business_days
from providers.selectors.applications import PROMISE_BUSINESS_DAYS
from providers.states import APPLICATION_WAITING
from providers.tiers import WHY_NOT

Status = Application.Status


class ApproveForm(ReasonForm):
    """Starts from what the rules propose; the reviewer may overrule with a reason."""

    tier = forms.ChoiceField(
        label=_("Tier"), choices=Tier.choices, widget=UnfoldAdminSelectWidget(choices=Tier.choices)
    )
    approved_machines = forms.IntegerField(
        label=_("Machines that may join"), min_value=1, widget=UnfoldAdminIntegerFieldWidget()
    )
    field_order = ("tier", "approved_machines", "reason")

    def __init__(self, *args: Any, subject: Application, **options: Any) -> None:
        cards = sum(group.quantity or 0 for group in subject.groups.all())
        tier = application_proposal(subject).tier
        options["initial"] = {"tier": tier, "approved_machines": cards, "reason": _now("Meets the requirements.")}
        super().__init__(*args, subject=subject, **options)


class QuestionForm(ReasonForm):
    reason = forms.CharField(label=_("Question to the applicant"), max_length=2000, widget=UnfoldAdminTextareaWidget())
    sections = forms.MultipleChoiceField(
        label=_("Parts to reopen"),
        choices=Application.Section.choices,
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
    )


def _approve(application: Application, reviewer: Any, values: dict[str, Any]) -> object:
    return services.application_approve(application=application, reviewer=reviewer, now=clock.now(), **values)


def _reject(application: Application, reviewer: Any, values: dict[str, Any]) -> object:
    return services.application_reject(
        application=application, reviewer=reviewer, reason=values["reason"], now=clock.now()
    )


def _ask(application: Application, reviewer: Any, values: dict[str, Any]) -> object:
    return services.application_request_information(
        application=application,
        reviewer=reviewer,
        question=values["reason"],
        sections=values["sections"],
        now=clock.now(),
    )


def _waiting(application: Application) -> bool:
    return application.status in APPLICATION_WAITING


class QueueFilter(admin.SimpleListFilter):
    """Shows what waits for a decision unless told otherwise."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("all", _("All")), *Status.choices]

    def choices(self, changelist: Any) -> Any:
        yield {
            "selected": self.value() is None,
            "query_string": changelist.get_query_string(remove=[self.parameter_name]),
            "display": _("Waiting for us"),
        }
        for value, label in self.lookup_choices:
            yield {
                "selected": self.value() == str(value),
                "query_string": changelist.get_query_string({self.parameter_name: value}),
                "display": label,
            }

    def queryset(self, request: HttpRequest, queryset: QuerySet[Application]) -> QuerySet[Application]:
        chosen = self.value()
        if chosen == "all":
            return queryset
        return queryset.filter(status__in=[chosen] if chosen else APPLICATION_WAITING)


@admin.register(Application)
class ApplicationAdmin(VerbsAdmin):
    list_display = ("legal_name", "party", "status", "age", "proposal", "cards", "submitted_at")
    list_filter = (QueueFilter,)
    list_select_related = ("party",)
    search_fields = ("legal_name", "email", "company", "party__handle")
    ordering = ("submitted_at", "id")
    change_form_before_template = "providers/admin/application.html"
    fields = (
        "party",
        "status",
        "legal_name",
        "email",
        "company",
        "ups",
        "commitment_months",
        "maintenance_note",
        "question",
        "answer",
        "tier",
        "reviewed_by",
        "decision_reason",
        "created_at",
        "submitted_at",
        "decided_at",
    )
    verbs = (
        Verb("approve", _("Approve"), _approve, _waiting, ApproveForm, _("Mails the install command and a token.")),
        Verb("ask", _("Ask for more information"), _ask, _waiting, QuestionForm),
        Verb("reject", _("Reject"), _reject, _waiting, explanation=_("The applicant reads the reason.")),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Application]:
        return super().get_queryset(request).exclude(status=Status.DRAFT).prefetch_related("groups")

    @admin.display(description=_("age (business days)"), ordering="submitted_at")
    def age(self, application: Application) -> str:
        if application.submitted_at is None or not _waiting(application):
            return "–"
        days = business_days(application.submitted_at, clock.now())
        return f"{days} ⚠" if days > PROMISE_BUSINESS_DAYS else str(days)

    @admin.display(description=_("proposed tier"))
    def proposal(self, application: Application) -> str:
        return str(Tier(application_proposal(application).tier).label)

    @admin.display(description=_("GPUs"))
    def cards(self, application: Application) -> int:
        return sum(group.quantity or 0 for group in application.groups.all())

    def page_context(self, subject: Application) -> dict[str, Any]:
        proposal = application_proposal(subject)
        return {
            "checks": application_checks(subject),
            "proposed": Tier(proposal.tier).label,
            "why_not": [_now(WHY_NOT[code]) for code in proposal.why_not],
            "groups": subject.groups.select_related("gpu_model"),
            "timeline": application_timeline(subject),
        }
