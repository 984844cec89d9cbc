from __future__ import annotations

from django.urls import path

from marketplace.views import billing, disputes, earnings, fleet, jobs, machines, market, pricing, telemetry

urlpatterns = [
    path("market/", market.market, name="marketplace_market"),
    path("market/<uuid:listing_id>/", market.listing, name="marketplace_listing"),
    path("jobs/", jobs.jobs, name="marketplace_jobs"),
    path("jobs/new/", jobs.job_new, name="marketplace_job_new"),
    path("jobs/new/estimate/", jobs.job_estimate, name="marketplace_job_estimate"),
    path("jobs/<uuid:job_id>/", jobs.job, name="marketplace_job"),
    path("jobs/<uuid:job_id>/live/", jobs.job_live, name="marketplace_job_live"),
    path("jobs/<uuid:job_id>/log/", jobs.job_log, name="marketplace_job_log"),
    path("jobs/<uuid:job_id>/cancel/", jobs.job_cancel, name="marketplace_job_cancel"),
    path("jobs/<uuid:job_id>/rerun/", jobs.job_rerun, name="marketplace_job_rerun"),
    path("jobs/<uuid:job_id>/attempts/<int:number>/dispute/", disputes.dispute, name="marketplace_dispute"),
    path("billing/limits/", billing.limits_set, name="billing_limits"),
    path("billing/", billing.billing, name="billing_home"),
    path("billing/deposits/", billing.deposit_open, name="billing_deposit_open"),
    path("provider/pricing/", pricing.pricing, name="marketplace_pricing"),
    path("provider/earnings/", earnings.earnings, name="marketplace_earnings"),
    path("provider/earnings/destination/", earnings.destination, name="marketplace_destination"),
    path("provider/earnings/bank/", earnings.bank_destination, name="marketplace_bank_destination"),
    path("provider/machines/", fleet.fleet, name="marketplace_fleet"),
    path("provider/machines/with-ticked/<slug:action>/", fleet.fleet_act, name="marketplace_fleet_act"),
    path("provider/machines/<uuid:machine_id>/describe/", fleet.machine_describe, name="marketplace_machine_describe"),
    path("provider/machines/<uuid:machine_id>/", machines.machine, name="marketplace_machine"),
    path("provider/machines/<uuid:machine_id>/telemetry/", telemetry.telemetry, name="marketplace_telemetry"),
    path(
        "provider/machines/<uuid:machine_id>/gpus/<uuid:gpu_id>/request/",
        machines.gpu_act,
        {"action": "request"},
        name="marketplace_gpu_request",
    ),
    path(
        "provider/machines/<uuid:machine_id>/gpus/<uuid:gpu_id>/release/",
        machines.gpu_act,
        {"action": "release"},
        name="marketplace_gpu_release",
    ),
    path("provider/machines/<uuid:machine_id>/<slug:action>/", machines.machine_act, name="marketplace_machine_act"),
]
