"""The provider's benchmark page: every card with its figures against the limits, in a fixed number of queries per model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from benchmarks.models import Proof, Result, Run, Verdict
from benchmarks.proving import timing_of
from benchmarks.selectors.guidance import METRICS, Explained, run_reason
from benchmarks.selectors.suites import fleet_medians, limits_at, reference_of
from benchmarks.selectors.verdicts import verdict_of
from benchmarks.states import RUN_OPEN
from benchmarks.verification import Limits, Values, minimum_of
from core.charts import Chart, line_chart
from providers.models import Gpu, Machine, Provider
from providers.selectors import machines_of

HISTORY_RUNS = 12
GIB = Decimal(1024**3)
HEALTH_RANGE = (50.0, 130.0)
"""What the health chart shows, in percent: below half of the reference nothing is left to tell apart."""


@dataclass(frozen=True)
class Figure:
    """One metric of a card's newest verdict. limit: the minimum (latency: the maximum), None where there is none."""

    metric: str
    label: str
    unit: str
    value: Decimal | None
    limit: Decimal | None
    is_maximum: bool
    ok: bool


@dataclass(frozen=True)
class PastRun:
    run: Run
    verdict: Verdict | None
    reason: str


@dataclass(frozen=True)
class Card:
    """standing: passed | failed | in_review, or None before the first verdict."""

    gpu: Gpu
    verdict: Verdict | None
    standing: str | None
    figures: Sequence[Figure]
    reasons: Sequence[Explained]
    open_run: Run | None
    history: Sequence[PastRun]
    chart: Chart | None
    proven_tflops: Decimal | None
    """What the platform itself has timed in the verdict's run, at least; None where there is no right answer."""


@dataclass(frozen=True)
class MachineCards:
    machine: Machine
    cards: Sequence[Card]


def benchmark_cards(provider: Provider, *, now: datetime) -> list[MachineCards]:
    """Every live machine of a provider with its cards, verdicts, limits and last runs."""
    machines = list(machines_of(provider))
    gpus = [gpu for machine in machines for gpu in machine.gpus.all()]
    verdicts = verdict_of([gpu.pk for gpu in gpus])
    runs = _last_runs(gpus)
    past = _verdicts_of(runs)
    judged = {
        row.pk: row for row in Run.objects.filter(pk__in=[v.run_id for v in verdicts.values()]).select_related("suite")
    }
    values: dict[UUID, dict[str, Decimal | None]] = defaultdict(dict)
    for run_id, metric, value in Result.objects.filter(run__in=judged).values_list("run_id", "metric", "value"):
        values[run_id][metric] = value
    proven = _proven(judged)
    standards = _Standards(now)
    found = []
    for machine in machines:
        memory = sum((gpu.memory_bytes or 0 for gpu in machine.gpus.all() if gpu.status == Gpu.Status.ACTIVE), 0)
        cards = []
        for gpu in machine.gpus.all():
            verdict = verdicts.get(gpu.pk)
            run = judged[verdict.run_id] if verdict else None
            figures = standards.figures(gpu, run, values[run.pk], Decimal(memory) / GIB) if run else []
            mine = runs.get(gpu.pk, [])
            history = [PastRun(row, past.get(row.pk), run_reason(row.reason)) for row in mine]
            cards.append(
                Card(
                    gpu=gpu,
                    verdict=verdict,
                    standing=_standing(verdict),
                    figures=figures,
                    reasons=[Explained(reason) for reason in verdict.reasons] if verdict else [],
                    open_run=next((row for row in mine if row.status in RUN_OPEN), None),
                    history=history,
                    chart=_health_chart(history),
                    proven_tflops=proven.get(run.pk) if run else None,
                )
            )
        found.append(MachineCards(machine, cards))
    return found


def _proven(judged: Iterable[UUID]) -> dict[UUID, Decimal]:
    """Per run whose challenge was answered rightly: the work by the platform's own clock, in TFLOPS."""
    proofs = Proof.objects.filter(run__in=list(judged), decided_at__isnull=False, wrong__isnull=True)
    found = {}
    for proof in proofs.order_by("started_at", "id").only("run", "n", "rounds", "started_at", "committed_at"):
        if proof.committed_at is not None:
            elapsed_s = (proof.committed_at - proof.started_at).total_seconds()
            found[proof.run_id] = timing_of(proof.n, proof.rounds, elapsed_s).proven_tflops
    return found


def _standing(verdict: Verdict | None) -> str | None:
    if verdict is None:
        return None
    if verdict.in_review:
        return "in_review"
    return "passed" if verdict.passed else "failed"


def _last_runs(gpus: Sequence[Gpu]) -> dict[UUID, list[Run]]:
    found: dict[UUID, list[Run]] = defaultdict(list)
    for run in Run.objects.filter(gpu__in=gpus).order_by("gpu", "-requested_at", "-id"):
        if len(found[run.gpu_id]) < HISTORY_RUNS:
            found[run.gpu_id].append(run)
    return found


def _verdicts_of(runs: dict[UUID, list[Run]]) -> dict[UUID, Verdict]:
    ids = [run.pk for rows in runs.values() for run in rows]
    return {row.run_id: row for row in Verdict.objects.filter(run__in=ids).order_by("decided_at", "id")}


def _health_chart(history: Sequence[PastRun]) -> Chart | None:
    readings = [
        (past.verdict.decided_at, None if past.verdict.health_percent is None else float(past.verdict.health_percent))
        for past in reversed(history)
        if past.verdict is not None
    ]
    if len(readings) < 2:
        return None
    return line_chart(readings, lowest=HEALTH_RANGE[0], highest=HEALTH_RANGE[1], guide=100.0)


class _Standards:
    """Limits per suite and fleet medians per model, each asked for once."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._limits: dict[UUID, Limits] = {}
        self._medians: dict[tuple[UUID, UUID, bool], Values | None] = {}

    def figures(self, gpu: Gpu, run: Run, values: Values, memory_gib: Decimal) -> list[Figure]:
        model = gpu.model
        if model is None:
            return []
        if run.suite_id not in self._limits:
            self._limits[run.suite_id] = limits_at(run.suite, self.now)
        limits = self._limits[run.suite_id]
        key = (model.pk, run.suite_id, bool(run.simulated))
        if key not in self._medians:
            self._medians[key] = fleet_medians(model_id=model.pk, suite=run.suite, limits=limits, simulated=key[2])
        found = []
        for metric, (label, unit) in METRICS.items():
            limit = minimum_of(
                metric,
                reference=reference_of(model),
                limits=limits,
                fleet_medians=self._medians[key],
                machine_memory_gib=memory_gib,
            )
            value, is_maximum = values.get(metric), metric == "latency_ms"
            ok = value is not None and (limit is None or (value <= limit if is_maximum else value >= limit))
            found.append(Figure(metric, str(label), unit, value, limit, is_maximum, ok))
        return found


def runs_open(gpu_ids: Iterable[UUID]) -> dict[UUID, Run]:
    """{GPU: its run that is on its way}; at most one each, others are absent."""
    return {run.gpu_id: run for run in Run.objects.filter(gpu__in=list(gpu_ids), status__in=RUN_OPEN)}


def gpu_of_provider(provider: Provider | None, gpu_id: UUID) -> Gpu | None:
    """The provider's own GPU, or None for anybody else's, as for none."""
    if provider is None:
        return None
    return Gpu.objects.select_related("machine__provider").filter(pk=gpu_id, machine__provider=provider).first()
