"""Why a score is what it is: its events with their price, and its history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext

from agent_protocol.reasons import reason_get
from core import spans
from core.spans import Span
from providers.models import Machine, Provider
from reliability.models import Incident, ScoreDay
from reliability.scoring import (
    WINDOW,
    Evidence,
    GpuEvidence,
    declared_spans,
    missing_spans,
    online_spans,
    score,
)
from reliability.selectors.evidence import evidence_of

EVENTS_SHOWN = 30
"""Each costs a computation of the score; older ones weigh little."""


@dataclass(frozen=True)
class ScoreEvent:
    """Something that cost points. kind: offline | unavailable (drained, unhealthy or delisted) | job.

    at: when it ended. points: the score without it minus the score; None while there is no score. fades_at: when it
    leaves the window (its weight halves every 14 days before that).
    """

    kind: str
    reason: str
    machine_id: UUID
    machine_name: str
    started_at: datetime | None
    at: datetime
    points: float | None

    @property
    def fades_at(self) -> datetime:
        return self.at + WINDOW

    @property
    def lasted_seconds(self) -> int | None:
        return None if self.started_at is None else int((self.at - self.started_at).total_seconds())

    @property
    def sentence(self) -> str:
        """What happened, in the viewer's language."""
        if self.kind == "offline":
            return gettext("The machine was offline.")
        if self.kind == "unavailable":
            return gettext("Online, but not available: drained, unhealthy or delisted.")
        return gettext(reason_get(self.reason).sentence)


def score_events(provider: Provider, *, as_of: datetime) -> list[ScoreEvent]:
    """The provider's newest events inside the window that cost points, newest first."""
    evidence = evidence_of([provider.pk], as_of=as_of)[provider.pk]
    whole = score(evidence).score
    names = dict(Machine.objects.filter(provider=provider).values_list("pk", "name"))
    candidates = [*_outages(evidence), *_failures(evidence)]
    candidates.sort(key=lambda candidate: candidate[0].at, reverse=True)
    found = []
    for event, without in candidates[:EVENTS_SHOWN]:
        better = score(without).score
        points = None if whole is None or better is None else better - whole
        if points is None or points > 0:
            found.append(
                ScoreEvent(
                    event.kind,
                    event.reason,
                    event.machine_id,
                    names.get(event.machine_id, ""),
                    event.started_at,
                    event.at,
                    points,
                )
            )
    return found


Candidate = tuple[ScoreEvent, Evidence]


def _event(kind: str, reason: str, machine_id: UUID, started_at: datetime | None, at: datetime) -> ScoreEvent:
    return ScoreEvent(kind, reason, machine_id, "", started_at, at, None)


def _outages(evidence: Evidence) -> Iterable[Candidate]:
    """Missing time per machine; what its cards miss together is one event."""
    as_of = evidence.as_of
    for machine_id in sorted({gpu.machine_id for gpu in evidence.gpus}):
        cards = [gpu for gpu in evidence.gpus if gpu.machine_id == machine_id]
        offline = spans.union(span for gpu in cards for span in _offline(gpu, as_of))
        other = spans.union(span for gpu in cards for span in missing_spans(gpu, as_of))
        for kind, periods in (("offline", offline), ("unavailable", spans.subtract(other, offline))):
            for start, end in periods:
                yield _event(kind, kind, machine_id, start, end), evidence.without_outage(machine_id, (start, end))


def _offline(gpu: GpuEvidence, as_of: datetime) -> list[Span]:
    return spans.subtract(declared_spans(gpu, as_of), online_spans(gpu.online, as_of))


def _failures(evidence: Evidence) -> Iterable[Candidate]:
    failed = [job for job in evidence.jobs if not job.completed]
    sources = [job.source for job in failed]
    reasons = dict(Incident.objects.filter(source__in=sources).values_list("source", "reason"))
    for job in failed:
        event = _event("job", reasons.get(job.source, "unknown"), job.machine_id, None, job.at)
        yield event, evidence.without_job(job.source)


def score_history(provider: Provider, *, as_of: datetime) -> Sequence[ScoreDay]:
    """The last score of each day inside the window, oldest first."""
    since = (as_of - WINDOW).date()
    return list(ScoreDay.objects.filter(subject_id=provider.pk, day__gte=since, day__lte=as_of.date()).order_by("day"))
