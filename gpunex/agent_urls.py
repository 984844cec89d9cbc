"""The endpoints for agents that speak to several apps; enrolment is providers'."""

from __future__ import annotations

from django.urls import path

from gpunex.agent_bench import commit, download, opened, start, upload
from gpunex.agent_events import events, logs, secrets
from gpunex.agent_sync import bell_redirect, credential, sync

agent_urlpatterns = [
    path("sync", sync, name="agent_sync"),
    path("credential", credential, name="agent_credential"),
    path("bell", bell_redirect, name="agent_bell"),
    path("events", events, name="agent_events"),
    path("attempts/<uuid:attempt_id>/logs", logs, name="agent_logs"),
    path("attempts/<uuid:attempt_id>/secrets", secrets, name="agent_secrets"),
    path("bench/<uuid:run_id>/start", start, name="agent_bench_start"),
    path("bench/<uuid:run_id>/commit", commit, name="agent_bench_commit"),
    path("bench/<uuid:run_id>/open", opened, name="agent_bench_open"),
    path("bench/<uuid:run_id>/download", download, name="agent_bench_download"),
    path("bench/<uuid:run_id>/upload", upload, name="agent_bench_upload"),
]
