"""Doors for the person: roles, profile, inbox, and the switches for language and colours."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts import services
from accounts.forms import ProfileForm
from accounts.http import PersonRequest
from accounts.selectors import inbox_of, party_of
from core import clock
from core.errors import DomainError
from core.forms import add_domain_error

INBOX_PAGE = 30
THEMES = ("auto", "light", "dark")
PREFERENCE_COOKIE_SECONDS = 365 * 24 * 3600


@require_safe
def roles(request: HttpRequest) -> HttpResponse:
    """The two ways in: rent GPUs, or provide them."""
    return render(request, "accounts/roles.html")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: PersonRequest) -> HttpResponse:
    user = request.user
    form = ProfileForm(
        request.POST or None, initial={"name": user.name, "language": user.language, "time_zone": user.time_zone}
    )
    if request.method == "POST" and form.is_valid():
        try:
            services.user_profile_set(user=user, **form.cleaned_data)
        except DomainError as error:
            add_domain_error(form, error)
        else:
            messages.success(request, _("Your profile is saved."))
            response = redirect("accounts_account")
            _set_preference(response, settings.LANGUAGE_COOKIE_NAME, form.cleaned_data["language"])
            return response
    return render(request, "accounts/account.html", {"form": form, "party": party_of(user)})


@login_required
@require_safe
def inbox(request: PersonRequest) -> HttpResponse:
    page = Paginator(inbox_of(request.user), INBOX_PAGE).get_page(request.GET.get("page"))
    return render(request, "accounts/inbox.html", {"page": page})


@login_required
@require_POST
def inbox_open(request: PersonRequest, notification_id: UUID) -> HttpResponse:
    """Mark one message read and go where it points."""
    row = inbox_of(request.user).filter(pk=notification_id).first()
    if row is None:
        raise Http404
    services.notification_read(user=request.user, notification_id=row.pk, now=clock.now())
    return HttpResponseRedirect(row.url or _here(request, "/inbox/"))


@login_required
@require_POST
def inbox_read_all(request: PersonRequest) -> HttpResponse:
    services.notifications_read_all(user=request.user, now=clock.now())
    return redirect("accounts_inbox")


@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """The language switch: a cookie for this browser and, signed in, the language we write in."""
    code = request.POST.get("language", "")
    if code not in dict(settings.LANGUAGES):
        return HttpResponseBadRequest(f"language: found {code!r}; allowed: {', '.join(dict(settings.LANGUAGES))}.")
    if request.user.is_authenticated:
        services.user_language_set(user=request.user, language=code)
    response = HttpResponseRedirect(_here(request, "/"))
    _set_preference(response, settings.LANGUAGE_COOKIE_NAME, code)
    return response


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """The light and dark switch: a cookie, read when a page is rendered."""
    choice = request.POST.get("theme", "")
    if choice not in THEMES:
        return HttpResponseBadRequest(f"theme: found {choice!r}; allowed: {', '.join(THEMES)}.")
    response = HttpResponseRedirect(_here(request, "/"))
    _set_preference(response, "theme", choice)
    return response


def _here(request: HttpRequest, fallback: str) -> str:
    """Where to go back to: the posted ``next``, when it is a path of ours."""
    target = request.POST.get("next", "")
    return target if target.startswith("/") and url_has_allowed_host_and_scheme(target, None) else fallback


def _set_preference(response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(
        name, value, max_age=PREFERENCE_COOKIE_SECONDS, samesite="Lax", secure=settings.SECURE_COOKIES, httponly=False
    )
