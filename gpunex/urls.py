"""Every route of the site, one include per app. The APIs are listed in api_urls."""

from __future__ import annotations

from importlib import import_module

from django.contrib import admin
from django.urls import include, path

from gpunex import health, home, provider
from gpunex.api_urls import urlpatterns as api_urlpatterns

APPS = ("accounts", "billing", "providers", "benchmarks", "reliability", "marketplace")

urlpatterns = [
    path("", home.home, name="home"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("provider/", provider.overview, name="provider_overview"),
    path("admin/", admin.site.urls),
    *(pattern for app in APPS for pattern in getattr(import_module(f"{app}.urls"), "urlpatterns", [])),
    path("account/", include("allauth.urls")),
    *api_urlpatterns,
]

handler403 = "gpunex.home.denied"
handler404 = "gpunex.home.not_found"
handler500 = "gpunex.home.failed"
