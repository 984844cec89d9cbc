from __future__ import annotations

from django.urls import path

from billing import views

urlpatterns = [
    path("billing/", views.billing, name="billing_home"),
    path("billing/deposits/", views.deposit_open, name="billing_deposit_open"),
    path("billing/deposits/<uuid:intent_id>/", views.deposit, name="billing_deposit"),
    path("billing/deposits/<uuid:intent_id>/status/", views.deposit_status, name="billing_deposit_status"),
]
