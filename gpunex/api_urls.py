"""Every API route: people and programs under /api/v1/, hosts under /agent/v1/, and the description of both."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import AllowAny

from gpunex import api_docs
from gpunex.agent_urls import agent_urlpatterns

Patterns = list[URLPattern | URLResolver]

APPS = ("accounts", "billing", "providers", "benchmarks", "reliability", "marketplace")


def _patterns(audience: str) -> Patterns:
    """Each app's ``<app>.api.urls.<audience>_urlpatterns``; an app without an API has none."""
    found: Patterns = []
    for app in APPS:
        if find_spec(f"{app}.api.urls") is not None:
            found += getattr(import_module(f"{app}.api.urls"), f"{audience}_urlpatterns", [])
    return found


urlpatterns: Patterns = [
    path("api/schema/", SpectacularAPIView.as_view(permission_classes=[AllowAny]), name="api_schema"),
    path("api/docs/", api_docs.docs, name="api_docs"),
    path("api/v1/", include((_patterns("public"), "api"))),
    path("agent/v1/", include(([*_patterns("agent"), *agent_urlpatterns], "agent"))),
]
