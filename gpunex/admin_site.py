"""The operator's admin: unfold's look, allauth's log-in (Django's own would skip the second factor)."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from unfold.sites import UnfoldAdminSite


class OperationsSite(UnfoldAdminSite):
    def login(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        """Staff go on; a signed-in person without the right is told so; anybody else logs in through allauth."""
        if self.has_permission(request):
            return HttpResponseRedirect(self.index_url(request))
        if request.user.is_authenticated:
            return render(request, "403.html", status=403)
        return redirect_to_login(request.GET.get("next") or request.get_full_path(), settings.LOGIN_URL)

    def index_url(self, request: HttpRequest) -> str:
        return f"/{self.name}/"
