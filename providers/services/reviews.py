"""What the reviewer does: take an application, ask, approve with a tier, reject; each with a reason, an event, a mail."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Sum
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.services import notification_send, party_legal_name_set
from core import news
from core.errors import Conflict, Denied, Invalid
from core.locks import lock_name
from providers.models import Application, ApplicationGpuGroup, Provider, Tier
from providers.places import region_of
from providers.services.schedules import schedule_set
from providers.services.tokens import TOKEN_DAYS, enrolment_token_issue
from providers.states import APPLICATION

Status = Application.Status
APPLICATION_URL = "/provider/application/"
MAX_MACHINES = 20_480
"""MAX_GROUPS groups of 1,024 cards, each in a machine of its own."""


def application_take(*, application: Application, reviewer: User, now: datetime) -> Application:
    """A reviewer starts on it: the applicant sees "in review"."""
    _not_own(application, reviewer)
    APPLICATION.move(application, to=Status.IN_REVIEW, at=now, actor=reviewer, changes={"reviewed_by": reviewer})
    return application


def application_request_information(
    *, application: Application, reviewer: User, question: str, sections: Iterable[str], now: datetime
) -> Application:
    """Ask the applicant something; ``sections`` (Application.Section) are reopened for changes, nothing else is."""
    wanted = [section for section in Application.Section.values if section in set(sections)]
    if unknown := set(sections) - set(wanted):
        raise Invalid.field("sections", found=sorted(unknown), allowed=", ".join(Application.Section.values))
    question = _reason(question, "question")
    with transaction.atomic():
        _take_if_new(application, reviewer, now)
        changes = {"question": question, "requested_sections": wanted, "answer": "", "reviewed_by": reviewer}
        _move(application, Status.MORE_INFORMATION, reviewer, question, now, changes)
        _tell(application, "application_information", {"question": question}, now)
    return application


def application_reject(*, application: Application, reviewer: User, reason: str, now: datetime) -> Application:
    """Refuse it, and say why. The applicant may apply again."""
    reason = _reason(reason)
    with transaction.atomic():
        _take_if_new(application, reviewer, now)
        _move(application, Status.REJECTED, reviewer, reason, now, {"decided_at": now})
        _tell(application, "application_rejected", {"reason": reason}, now)
    return application


def application_approve(
    *,
    application: Application,
    tier: str,
    reviewer: User,
    reason: str,
    now: datetime,
    approved_machines: int | None = None,
) -> Provider:
    """Make the party a provider of ``tier``, or let an existing one grow; mail the install command with a new token.

    ``approved_machines``: how many hosts may join for it; by default one per card. Raises Invalid (tier, reason,
    approved_machines), Conflict ``provider_closed``, MoveNotAllowed; nothing has moved then.
    """
    if tier not in Tier.values:
        raise Invalid.field("tier", found=tier, allowed=", ".join(Tier.values))
    reason = _reason(reason)
    cards = application.groups.aggregate(cards=Sum("quantity"))["cards"] or 0
    machines = cards if approved_machines is None else approved_machines
    if not 1 <= machines <= MAX_MACHINES:
        raise Invalid.field("approved_machines", found=machines, allowed=f"1 to {MAX_MACHINES}")
    with transaction.atomic():
        lock_name(f"provider:{application.party_id}")
        _take_if_new(application, reviewer, now)
        _move(application, Status.APPROVED, reviewer, reason, now, {"tier": tier, "decided_at": now})
        provider = _provider(application, tier, machines, reviewer, now)
        # Told down, as billing knows no application: bank accounts must be in this name.
        party_legal_name_set(party=application.party, name=application.company or application.legal_name)
        _token, secret = enrolment_token_issue(provider=provider, actor=reviewer, now=now)
        context = {"tier": tier, "days": TOKEN_DAYS, "machines": _token.uses, "reason": reason}
        _tell(application, "application_approved", context, now, url="/provider/", secrets={"token": secret})
        news.publish("provider.state", provider.pk, now=now)
    return provider


def _provider(application: Application, tier: str, machines: int, reviewer: User, now: datetime) -> Provider:
    provider = Provider.objects.select_for_update().filter(party=application.party_id).first()
    home = application.groups.order_by("-quantity", "position").first()
    if home is None:
        raise Conflict(_("The application names no GPUs."), code="no_gpus")
    if provider is None:
        provider = Provider.objects.create(
            party=application.party,
            application=application,
            tier=tier,
            country=home.country,
            region=region_of(home.country),
            commitment_months=application.commitment_months or 0,
            approved_machines=machines,
            joined_at=now,
            created_at=now,
        )
        _default_schedule(provider, application, reviewer, now)
        return provider
    if provider.status == Provider.Status.CLOSED:
        raise Conflict(_("This provider has been closed."), code="provider_closed")
    provider.tier = tier
    provider.application = application
    provider.approved_machines += machines
    provider.commitment_months = max(provider.commitment_months, application.commitment_months or 0)
    provider.save(update_fields=["tier", "application", "approved_machines", "commitment_months"])
    return provider


def _default_schedule(provider: Provider, application: Application, reviewer: User, now: datetime) -> None:
    """The declared availability becomes the provider's default; where groups differ, that of the largest scheduled one.

    Declaring less than is offered never counts against a provider; declaring more would.
    """
    scheduled: ApplicationGpuGroup | None = (
        application.groups.filter(always_on=False).order_by("-quantity", "position").first()
    )
    schedule_set(
        provider=provider,
        zone=scheduled.schedule_zone if scheduled else "UTC",
        always_on=scheduled is None,
        windows=scheduled.windows if scheduled else [],
        actor=reviewer,
        now=now,
    )


def _reason(text: str, name: str = "reason") -> str:
    text = text.strip()
    if not 1 <= len(text) <= 2000:
        raise Invalid.field(
            name, found=f"{len(text)} characters", allowed="1 to 2000 characters: the applicant reads it"
        )
    return text


def _not_own(application: Application, reviewer: User) -> None:
    if application.applicant_id == reviewer.pk:
        raise Denied(_("Nobody reviews their own application."), code="own_application")


def _take_if_new(application: Application, reviewer: User, now: datetime) -> None:
    _not_own(application, reviewer)
    if application.status == Status.SUBMITTED:
        application_take(application=application, reviewer=reviewer, now=now)


def _move(
    application: Application, to: str, reviewer: User, reason: str, now: datetime, changes: dict[str, object]
) -> None:
    changes = {"reviewed_by": reviewer, "decision_reason": reason, **changes}
    APPLICATION.move(application, to=to, at=now, actor=reviewer, reason=reason, changes=changes)


def _tell(
    application: Application,
    kind: str,
    context: dict[str, object],
    now: datetime,
    url: str = APPLICATION_URL,
    secrets: dict[str, str] | None = None,
) -> None:
    notification_send(party=application.party, kind=kind, context=context, url=url, secrets=secrets, now=now)
