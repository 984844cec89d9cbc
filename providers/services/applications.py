"""What the applicant does: save a draft, submit it, answer a question, withdraw."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.models import Party, User
from core.errors import Conflict, Invalid
from core.locks import lock_name
from providers.models import Application, ApplicationGpuGroup
from providers.services.application_input import (
    NOTE_LENGTH,
    ApplicationInput,
    application_check,
    application_input,
    group_rows,
)
from providers.states import APPLICATION, APPLICATION_OPEN

Section = Application.Section
SECTION_FIELDS: dict[str, tuple[str, ...]] = {
    Section.CONTACT: ("legal_name", "email", "company"),
    Section.GPUS: ("groups",),
    Section.INFRASTRUCTURE: ("ups", "commitment_months", "maintenance_note"),
}
"""Which inputs a reviewer reopens by naming a section."""


def application_save_draft(*, party: Party, applicant: User, data: ApplicationInput, now: datetime) -> Application:
    """Store what the party has filled in so far; the first time makes the draft.

    Raises Invalid for anything given that cannot be right, Conflict ``application_under_way`` once it is submitted.
    """
    application_check(data, complete=False)
    with transaction.atomic():
        lock_name(f"application:{party.pk}")
        application = _locked(Application.objects.filter(party=party, status__in=APPLICATION_OPEN))
        if application is None:
            application = Application(party=party, applicant=applicant, created_at=now, updated_at=now)
        elif application.status != Application.Status.DRAFT:
            raise Conflict(_("Your application has been submitted already."), code="application_under_way")
        _write(application, data, now)
    return application


def _locked(applications: QuerySet[Application]) -> Application | None:
    # A save and a submission of one application wait for each other: what was checked is what is handed in.
    return applications.select_for_update(of=("self",)).first()


def _write(application: Application, data: ApplicationInput, now: datetime) -> None:
    for name in (*SECTION_FIELDS[Section.CONTACT], *SECTION_FIELDS[Section.INFRASTRUCTURE]):
        setattr(application, name, getattr(data, name))
    application.updated_at = now
    application.save()
    application.groups.all().delete()
    ApplicationGpuGroup.objects.bulk_create(group_rows(application, data))


def application_submit(*, application: Application, actor: User, now: datetime) -> Application:
    """Hand a draft in. Raises Invalid naming every gap, MoveNotAllowed or StaleState once it is submitted."""
    with transaction.atomic():
        _locked(Application.objects.filter(pk=application.pk))
        APPLICATION.check(old=application.status, new=Application.Status.SUBMITTED)
        application_check(application_input(application), complete=True)
        changes = {"submitted_at": now, "updated_at": now}
        APPLICATION.move(application, to=Application.Status.SUBMITTED, at=now, actor=actor, changes=changes)
    return application


def application_answer(
    *, application: Application, actor: User, data: ApplicationInput, answer: str, now: datetime
) -> Application:
    """Answer a reviewer's question: the sections that were reopened are taken from ``data``, nothing else is.

    Raises Invalid (answer, or a field of a reopened section), MoveNotAllowed when nothing was asked.
    """
    status = Application.Status
    if application.status != status.MORE_INFORMATION:
        raise Conflict(_("No information is asked for at present."), code="nothing_asked")
    if not answer.strip() or len(answer) > NOTE_LENGTH:
        raise Invalid.field("answer", found=f"{len(answer)} characters", allowed=f"1 to {NOTE_LENGTH} characters")
    reopened: dict[str, Any] = {
        name: getattr(data, name) for section in application.requested_sections for name in SECTION_FIELDS[section]
    }
    merged = replace(application_input(application), **reopened)
    application_check(merged, complete=True)
    with transaction.atomic():
        changes = {"answer": answer.strip(), "requested_sections": [], "submitted_at": now}
        APPLICATION.move(application, to=status.IN_REVIEW, at=now, actor=actor, reason=answer.strip(), changes=changes)
        _write(application, merged, now)
    return application


def application_withdraw(*, application: Application, actor: User, now: datetime) -> Application:
    """The applicant takes it back; allowed until a decision is made."""
    APPLICATION.move(
        application,
        to=Application.Status.WITHDRAWN,
        at=now,
        actor=actor,
        changes={"updated_at": now, "decided_at": now},
    )
    return application
