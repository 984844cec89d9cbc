from __future__ import annotations

from django.urls import path

from marketplace.api import public

public_urlpatterns = [
    path("market/listings", public.ListingsView.as_view(), name="market_listings"),
    path("market/listings/<uuid:listing_id>", public.ListingView.as_view(), name="market_listing"),
    path("jobs", public.JobsView.as_view(), name="jobs"),
    path("jobs/<uuid:job_id>", public.JobView.as_view(), name="job"),
    path("jobs/<uuid:job_id>/cancel", public.JobCancelView.as_view(), name="job_cancel"),
    path("jobs/<uuid:job_id>/log", public.JobLogView.as_view(), name="job_log"),
]
