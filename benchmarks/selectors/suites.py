from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import connection

from benchmarks.models import Suite, Threshold
from benchmarks.verification import Limits, Reference, Values
from providers.models import GpuModel


def suite_at(at: datetime) -> Suite:
    """The suite that new runs use: the newest valid one. A migration ships the first."""
    return Suite.objects.filter(valid_from__lte=at).order_by("-version")[0]


def limits_at(suite: Suite, at: datetime) -> Limits:
    """The thresholds of a suite in force at an instant."""
    rows = Threshold.objects.filter(suite=suite, valid_from__lte=at).order_by("name", "valid_from")
    return Limits(**{row.name: row.value for row in rows})


def reference_of(model: GpuModel) -> Reference:
    """The catalogue's figures of a model by metric. Tensor cores already do the FP16 product, so it shares its figures."""
    fp32, fp16, bandwidth = (
        (getattr(model, f"{name}_reference"), getattr(model, f"{name}_peak"))
        for name in ("fp32_tflops", "fp16_tflops", "bandwidth_gbps")
    )
    by_metric = {
        "fp32_tflops": fp32,
        "fp16_tflops": fp16,
        "tensor_tflops": fp16,
        "memory_read_gbps": bandwidth,
        "memory_write_gbps": bandwidth,
        "memory_copy_gbps": bandwidth,
    }
    return Reference(
        measured={metric: figures[0] for metric, figures in by_metric.items()},
        peak={metric: figures[1] for metric, figures in by_metric.items()},
    )


# One vote per machine: its newest verified run, so that a large machine or an eager retester does not set the standard.
_FLEET_MEDIANS = """
WITH newest AS (
    SELECT DISTINCT ON (run.machine_id) run.id, run.machine_id
    FROM benchmarks_run run JOIN providers_gpu gpu ON gpu.id = run.gpu_id
    WHERE gpu.model_id = %(model)s AND gpu.status = 'active' AND run.suite_id = %(suite)s
        AND run.status = 'verified' AND run.simulated = %(simulated)s
    ORDER BY run.machine_id, run.reported_at DESC
)
SELECT result.metric, percentile_cont(0.5) WITHIN GROUP (ORDER BY result.value)::numeric(16, 4)
FROM newest JOIN benchmarks_result result ON result.run_id = newest.id AND result.value IS NOT NULL
WHERE (SELECT count(*) FROM newest) >= %(machines)s
GROUP BY result.metric
"""


def fleet_medians(*, model_id: UUID, suite: Suite, limits: Limits, simulated: bool) -> Values | None:
    """What the fleet's machines of a model measure, once there are enough of them to say; else None."""
    with connection.cursor() as cursor:
        cursor.execute(
            _FLEET_MEDIANS,
            {
                "model": str(model_id),
                "suite": str(suite.pk),
                "simulated": simulated,
                "machines": limits.fleet_median_machines,
            },
        )
        return dict(cursor.fetchall()) or None
