from __future__ import annotations

from django.urls import path

from marketplace.api import earnings, protection, public

public_urlpatterns = [
    path("billing/history", earnings.HistoryView.as_view(), name="billing_history"),
    path("provider/earnings", earnings.EarningsView.as_view(), name="provider_earnings"),
    path("provider/payouts", earnings.PayoutsView.as_view(), name="provider_payouts"),
    path("provider/statements", earnings.StatementsView.as_view(), name="provider_statements"),
    path("market/listings", public.ListingsView.as_view(), name="market_listings"),
    path("market/listings/<uuid:listing_id>", public.ListingView.as_view(), name="market_listing"),
    path("jobs", public.JobsView.as_view(), name="jobs"),
    path("jobs/<uuid:job_id>", public.JobView.as_view(), name="job"),
    path("jobs/<uuid:job_id>/cancel", public.JobCancelView.as_view(), name="job_cancel"),
    path("jobs/<uuid:job_id>/attempts/<int:number>/dispute", protection.DisputeView.as_view(), name="job_dispute"),
    path("billing/limits", protection.SpendLimitsView.as_view(), name="billing_limits"),
    path("billing/disputes", protection.DisputesView.as_view(), name="billing_disputes"),
    path("jobs/<uuid:job_id>/log", public.JobLogView.as_view(), name="job_log"),
]
