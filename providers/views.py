"""Doors for applicants and hosts: the application and its status, the installer and the steps by hand."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import User
from accounts.selectors import party_of
from agent_protocol.checks import HOST_CHECKS
from core import clock
from core.errors import DomainError
from core.forms import add_domain_error
from providers import services
from providers.forms import AnswerForm, ApplicationForms, windows_text
from providers.models import Application
from providers.selectors import application_of, application_open_of, application_timeline, provider_of
from providers.services.tokens import TOKEN_DAYS

INSTALLER = (settings.BASE_DIR / "agent" / "install.sh").read_text()
Status = Application.Status


class SignedIn(HttpRequest):
    """A request behind login_required."""

    user: User


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def apply(request: SignedIn) -> HttpResponse:
    """The application form: a draft that can be saved, extended by groups, and submitted."""
    party = party_of(request.user)
    application = application_open_of(party)
    if application is not None and application.status != Status.DRAFT:
        return redirect("providers_application")
    if request.method == "POST":
        return _apply_post(request)
    data = services.application_input(application) if application else _blank(request)
    return _apply_page(request, ApplicationForms.stored(data), application)


def _blank(request: SignedIn) -> services.ApplicationInput:
    return services.ApplicationInput(legal_name=request.user.name, email=request.user.email)


def _apply_page(request: SignedIn, forms: ApplicationForms, application: Application | None) -> HttpResponse:
    return render(request, "providers/apply.html", {"forms": forms, "application": application})


def _apply_post(request: SignedIn) -> HttpResponse:
    party, now = party_of(request.user), clock.now()
    forms = ApplicationForms.posted(request.POST)
    regroup = "add_group" in request.POST or "remove_group" in request.POST
    if regroup or not forms.is_valid():
        return _apply_page(request, forms, application_open_of(party))
    try:
        application = services.application_save_draft(
            party=party, applicant=request.user, data=forms.application_input(), now=now
        )
        if "submit" not in request.POST:
            messages.success(request, _("Your draft is saved. Nobody reads it until you submit it."))
            return redirect("providers_apply")
        services.application_submit(application=application, actor=request.user, now=now)
    except DomainError as error:
        forms.add_error(error)
        return _apply_page(request, forms, application_open_of(party))
    messages.success(request, _("Your application is submitted. We write to you within 1 to 3 business days."))
    return redirect("providers_application")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def application(request: SignedIn) -> HttpResponse:
    """Where the application stands; a POST answers the reviewer's question."""
    party = party_of(request.user)
    row = application_of(party)
    if row is None:
        return redirect("providers_apply")
    forms, answer = ApplicationForms.stored(services.application_input(row)), AnswerForm()
    if request.method == "POST":
        forms, answer = ApplicationForms.posted(request.POST), AnswerForm(request.POST)
        regroup = "add_group" in request.POST or "remove_group" in request.POST
        if not regroup and forms.is_valid() and answer.is_valid() and _answered(request, row, forms, answer):
            messages.success(request, _("Thank you. The review goes on with your answer."))
            return redirect("providers_application")
    context = {
        "application": row,
        "groups": [(group, windows_text(group.windows)) for group in row.groups.select_related("gpu_model")],
        "timeline": application_timeline(row),
        "provider": provider_of(party),
        "forms": forms,
        "answer": answer,
        "asked": row.status == Status.MORE_INFORMATION,
        "withdrawable": row.status in (Status.SUBMITTED, Status.IN_REVIEW, Status.MORE_INFORMATION, Status.DRAFT),
    }
    return render(request, "providers/application.html", context)


def _answered(request: SignedIn, row: Application, forms: ApplicationForms, answer: AnswerForm) -> bool:
    try:
        services.application_answer(
            application=row,
            actor=request.user,
            data=forms.application_input(),
            answer=answer.cleaned_data["answer"],
            now=clock.now(),
        )
    except DomainError as error:
        if set(error.fields) <= set(answer.fields):
            add_domain_error(answer, error)
        else:
            forms.add_error(error)
        return False
    return True


@login_required
@require_POST
def application_withdraw(request: SignedIn) -> HttpResponse:
    row = application_open_of(party_of(request.user))
    if row is not None:
        try:
            services.application_withdraw(application=row, actor=request.user, now=clock.now())
        except DomainError as error:
            messages.error(request, error.message)
        else:
            messages.success(request, _("Your application is withdrawn. You can apply again at any time."))
    return redirect("providers_application")


@require_safe
def installer(request: HttpRequest) -> HttpResponse:
    """The installer as it lies in the repository, with this platform's address and images filled in."""
    script = INSTALLER
    for name, value in (
        ("@ORIGIN@", settings.ORIGIN),
        ("@AGENT_IMAGE@", settings.AGENT_IMAGE),
        ("@GUARD_IMAGE@", settings.GUARD_IMAGE),
    ):
        script = script.replace(name, value)
    return HttpResponse(script, content_type="text/plain; charset=utf-8")


@require_safe
def manual(request: HttpRequest) -> HttpResponse:
    """What the installer does, step by step, for people who would rather do it by hand."""
    return render(request, "providers/manual.html", {"checks": HOST_CHECKS, "days": TOKEN_DAYS})
