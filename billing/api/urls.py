from __future__ import annotations

from django.urls import path

from billing.api import public

public_urlpatterns = [
    path("billing/balance", public.BalanceView.as_view(), name="billing_balance"),
    path("billing/history", public.HistoryView.as_view(), name="billing_history"),
    path("billing/deposits", public.DepositsView.as_view(), name="billing_deposits"),
    path("billing/deposits/<uuid:intent_id>", public.DepositView.as_view(), name="billing_deposit"),
    path("billing/payouts", public.PayoutsView.as_view(), name="billing_payouts"),
]
