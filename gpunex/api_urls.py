"""Every API route: people and programs under /api/v1/, hosts under /agent/v1/, and the description of both."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import AllowAny

from billing.api import urls as billing
from gpunex import api_docs
from gpunex.agent_urls import agent_urlpatterns
from marketplace.api import urls as marketplace
from providers.api import urls as providers

Patterns = list[URLPattern | URLResolver]

PUBLIC: Patterns = [*billing.public_urlpatterns, *providers.public_urlpatterns, *marketplace.public_urlpatterns]
AGENT: Patterns = [*providers.agent_urlpatterns, *agent_urlpatterns]

agent_api: Patterns = [path("agent/v1/", include((AGENT, "agent")))]
"""First in the URLconf: hosts ask far more often than anybody else."""

urlpatterns: Patterns = [
    path("api/schema/", SpectacularAPIView.as_view(permission_classes=[AllowAny]), name="api_schema"),
    path("api/docs/", api_docs.docs, name="api_docs"),
    path("api/v1/", include((PUBLIC, "api"))),
]
