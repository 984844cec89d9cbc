from benchmarks.services.clashes import gpu_rechallenge
from benchmarks.services.dispatch import run_fail, run_observe, runs_dispatch, runs_expire
from benchmarks.services.reports import run_report, verdict_review_close
from benchmarks.services.requests import machine_retest, run_retest, runs_request_for_machine, runs_request_weekly

__all__ = [
    "gpu_rechallenge",
    "machine_retest",
    "run_fail",
    "run_observe",
    "run_report",
    "run_retest",
    "runs_dispatch",
    "runs_expire",
    "runs_request_for_machine",
    "runs_request_weekly",
    "verdict_review_close",
]
