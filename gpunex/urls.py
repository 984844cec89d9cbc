"""Every route of the site, one include per app. The APIs are listed in api_urls."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from gpunex import health, home, provider
from gpunex.api_urls import agent_api
from gpunex.api_urls import urlpatterns as api_urlpatterns

urlpatterns = [
    *agent_api,
    path("", home.home, name="home"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("provider/", provider.overview, name="provider_overview"),
    path("admin/", admin.site.urls),
    path("", include("accounts.urls")),
    path("", include("billing.urls")),
    path("", include("providers.urls")),
    path("", include("benchmarks.urls")),
    path("", include("reliability.urls")),
    path("", include("marketplace.urls")),
    path("account/", include("allauth.urls")),
    *api_urlpatterns,
]

handler403 = "gpunex.home.denied"
handler404 = "gpunex.home.not_found"
handler500 = "gpunex.home.failed"
