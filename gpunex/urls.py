"""Every route of the site, one include per app. The APIs are listed in api_urls."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from gpunex import health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("admin/", admin.site.urls),
    path("i18n/", include("django.conf.urls.i18n")),
    path("account/", include("allauth.urls")),
]
