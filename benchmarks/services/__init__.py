from benchmarks.services.clashes import gpu_rechallenge
from benchmarks.services.dispatch import run_fail, run_observe, runs_dispatch, runs_expire
from benchmarks.services.proofs import (
    proof_commit,
    proof_decide,
    proof_open,
    proof_start,
    proofs_decide,
    proofs_withheld_review,
    run_on_host_check,
)
from benchmarks.services.reports import run_report, verdict_review_close
from benchmarks.services.requests import (
    machine_retest,
    run_retest,
    runs_request_for_machine,
    runs_request_for_suite,
    runs_request_surprise,
    runs_request_weekly,
)

__all__ = [
    "gpu_rechallenge",
    "machine_retest",
    "proof_commit",
    "proof_decide",
    "proof_open",
    "proof_start",
    "proofs_decide",
    "proofs_withheld_review",
    "run_fail",
    "run_observe",
    "run_on_host_check",
    "run_report",
    "run_retest",
    "runs_dispatch",
    "runs_expire",
    "runs_request_for_machine",
    "runs_request_for_suite",
    "runs_request_surprise",
    "runs_request_weekly",
    "verdict_review_close",
]
