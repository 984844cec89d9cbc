from __future__ import annotations

from django.urls import path

from providers import views

urlpatterns = [
    path("provider/apply/", views.apply, name="providers_apply"),
    path("provider/application/", views.application, name="providers_application"),
    path("provider/application/withdraw/", views.application_withdraw, name="providers_application_withdraw"),
    path("agent", views.installer, name="providers_installer"),
    path("agent/manual/", views.manual, name="providers_manual"),
]
