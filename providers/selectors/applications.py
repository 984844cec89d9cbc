"""Applications as their owner and their reviewer see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.models import Party
from core.models import StatusEvent
from providers.models import Application, ApplicationGpuGroup, Provider
from providers.places import served
from providers.states import APPLICATION_OPEN, APPLICATION_WAITING
from providers.tiers import Proposal, propose

PROMISE_BUSINESS_DAYS = 3
"""The guide promises a decision within one to three business days."""


@dataclass(frozen=True)
class Check:
    """One rule the application was held against: a sentence, and whether it holds."""

    label: str
    ok: bool
    found: str


def application_open_of(party: Party) -> Application | None:
    """The party's application under way (draft included), or null."""
    return Application.objects.filter(party=party, status__in=APPLICATION_OPEN).first()


def approved_countries(provider: Provider) -> list[str]:
    """Where the provider's machines may stand, by its approved applications: ISO-2 codes, sorted."""
    groups = ApplicationGpuGroup.objects.filter(
        application__party=provider.party_id, application__status=Application.Status.APPROVED
    )
    return sorted(set(groups.values_list("country", flat=True)))


def application_of(party: Party) -> Application | None:
    """The party's newest application, whatever became of it, or null."""
    return Application.objects.filter(party=party).order_by("-created_at", "-id").first()


def application_timeline(application: Application) -> list[StatusEvent]:
    """Its moves, oldest first. The actor's name is for staff: pages of the applicant show what and when, and reasons."""
    return list(
        StatusEvent.objects.filter(subject_type="providers.application", subject_id=application.pk).order_by("id")
    )


def application_proposal(application: Application) -> Proposal:
    """What the tier rule proposes for it."""
    return propose(
        company=application.company,
        ups=application.ups,
        commitment_months=application.commitment_months or 0,
        always_on=all(group.always_on for group in application.groups.all()),
    )


def application_checks(application: Application) -> list[Check]:
    """What the rules already know, for the reviewer."""
    groups = list(application.groups.select_related("gpu_model").order_by("position"))
    unlisted = [group.other_model for group in groups if group.gpu_model is None or not group.gpu_model.supported]
    unserved = sorted({group.country for group in groups if not served(group.country)})
    return [
        Check(_("Every GPU is a supported model"), not unlisted, ", ".join(unlisted)),
        Check(_("Every country is served"), not unserved, ", ".join(unserved)),
        Check(_("All machines have a UPS"), application.ups == Application.Ups.ALL, application.get_ups_display()),
    ]


def review_queue() -> QuerySet[Application]:
    """Applications that wait for us, oldest first."""
    return Application.objects.filter(status__in=APPLICATION_WAITING).order_by("submitted_at", "id")


def business_days(since: datetime, until: datetime) -> int:
    """Working days (Monday to Friday, UTC) that began after ``since``'s day and up to ``until``'s."""
    first, last = since.astimezone(UTC).date(), until.astimezone(UTC).date()
    weeks, rest = divmod(max((last - first).days, 0), 7)
    return weeks * 5 + sum((first + timedelta(days=number)).weekday() < 5 for number in range(1, rest + 1))
