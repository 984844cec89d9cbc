"""The operator's admin: unfold's look, allauth's log-in (Django's own would skip the second factor)."""

from __future__ import annotations

from typing import Any, cast

from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from unfold.sites import UnfoldAdminSite

from accounts.models import User
from core import clock
from gpunex.operations import operations_today

NOT_ON_THE_WEB = frozenset({"auth", "account", "mfa"})
"""Groups, permissions, verified addresses and second factors: nobody grants rights or takes over a log-in by a form."""


class OperationsSite(UnfoldAdminSite):
    def register(self, model_or_iterable: Any, *args: Any, **options: Any) -> None:
        """As Django's, but third-party apps do not get their models in by themselves."""
        models: list[Any] = [model_or_iterable] if isinstance(model_or_iterable, type) else model_or_iterable
        ours = [model for model in models if model._meta.app_label not in NOT_ON_THE_WEB]
        super().register(ours, *args, **options)

    index_template = "gpunex/admin/index.html"

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """What needs doing today, instead of a list of tables."""
        today = operations_today(cast(User, request.user), now=clock.now())
        return super().index(request, {"today": today, "title": _("Today"), **(extra_context or {})})

    def has_permission(self, request: HttpRequest) -> bool:
        """Staff with a second factor. The demo's operator logs in by password alone: the demo listens on loopback only."""
        user = request.user
        return super().has_permission(request) and (settings.DEMO or is_mfa_enabled(user))

    def login(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        """Staff go on; a signed-in person without the right is told so; anybody else logs in through allauth."""
        if self.has_permission(request):
            return HttpResponseRedirect(self.index_url(request))
        if request.user.is_authenticated and request.user.is_staff:
            messages.warning(request, _("The operator's pages need a second factor. Set one up, then come back."))
            return redirect("mfa_index")
        if request.user.is_authenticated:
            return render(request, "403.html", status=403)
        return redirect_to_login(request.GET.get("next") or request.get_full_path(), settings.LOGIN_URL)

    def index_url(self, request: HttpRequest) -> str:
        return f"/{self.name}/"
