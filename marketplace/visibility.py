"""Is a listing shown, and if not, the one reason its provider reads. Pure: facts in, verdict out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

SENTENCES: dict[str, str | Promise] = {
    "provider_suspended": _("Your provider account is suspended."),
    "provider_closed": _("Your provider account is closed."),
    "machine_retired": _("The machine is retired."),
    "machine_quarantined": _("The machine is in quarantine; the operator looks into it."),
    "machine_revoked": _("The machine's credential was revoked; enrol it again."),
    "not_confirmed": _("Confirm on the machine's page that this machine is yours."),
    "draining": _("You are draining the machine; resume it to rent it out again."),
    "gpu_needs_review": _("The GPU waits for a review by the operator."),
    "gpu_unavailable": _("The machine reports no healthy GPU of this model."),
    "machine_offline": _("The machine is offline."),
    "machine_silent": _("The machine has not been heard from for some seconds."),
    "host_degraded": _("The machine reports a problem of its own and takes no new jobs."),
    "benchmark_missing": _("The first benchmark has not been passed yet."),
    "benchmark_in_review": _("A benchmark figure is too good to be true; a person looks at it."),
    "benchmark_below_minimum": _("The benchmark is below the minimum."),
    "gpu_occupied": _("Something that is not a job of ours uses the GPU."),
    "no_rate": _("Set a rate for this model."),
    "outside_schedule": _("Outside the hours you offer it."),
}
"""Every hidden reason, as its provider reads it, in the order in which they are looked at."""

WANTED = ("outside_schedule", "draining", "machine_retired")
"""Hidden because the provider wants it so: nothing to do."""

_MACHINE = {
    "retired": "machine_retired",
    "quarantined": "machine_quarantined",
    "revoked": "machine_revoked",
    "pending_confirmation": "not_confirmed",
    "draining": "draining",
}
_HEALTH = {"suspect": "machine_silent", "offline": "machine_offline", "never": "machine_offline"}


@dataclass(frozen=True)
class GpuFacts:
    """One GPU of the listing's model. ``passed``: the latest verdict, None before the first. ``occupied``: by what."""

    status: str
    passed: bool | None
    reasons: Sequence[str] = ()
    in_review: bool = False
    occupied: str = ""

    @property
    def sellable(self) -> bool:
        return self.status == "active" and self.passed is True and not self.occupied


@dataclass(frozen=True)
class Facts:
    provider_status: str
    machine_status: str
    health: str
    degraded: Sequence[str]
    gpus: Sequence[GpuFacts]
    rate_micro: int | None
    open_now: bool
    opens_at: datetime | None = None


@dataclass(frozen=True)
class Shown:
    """``reason`` is empty when the listing is visible; ``detail`` are codes that narrow it down (metrics, degradations)."""

    visible: bool
    reason: str = ""
    detail: tuple[str, ...] = ()


def decide(facts: Facts) -> Shown:
    """The first thing in the way, in the order in which a provider would mend them."""
    if facts.provider_status != "active":
        return Shown(False, f"provider_{facts.provider_status}")
    if facts.machine_status != "active":
        return Shown(False, _MACHINE[facts.machine_status])
    active = [gpu for gpu in facts.gpus if gpu.status == "active"]
    if not active:
        waits = any(gpu.status == "needs_review" for gpu in facts.gpus)
        return Shown(False, "gpu_needs_review" if waits else "gpu_unavailable")
    if facts.health != "online":
        return Shown(False, _HEALTH[facts.health])
    if facts.degraded:
        return Shown(False, "host_degraded", tuple(facts.degraded))
    if not any(gpu.sellable for gpu in active):
        occupied = dict.fromkeys(gpu.occupied for gpu in active if gpu.passed is True and gpu.occupied)
        if occupied:
            return Shown(False, "gpu_occupied", tuple(occupied))
        failed = [gpu for gpu in active if gpu.passed is False]
        if any(gpu.in_review for gpu in failed):
            return Shown(False, "benchmark_in_review")
        if failed:
            codes = dict.fromkeys(code for gpu in failed for code in gpu.reasons)
            return Shown(False, "benchmark_below_minimum", tuple(codes))
        return Shown(False, "benchmark_missing")
    if facts.rate_micro is None:
        return Shown(False, "no_rate")
    if not facts.open_now:
        detail = (facts.opens_at.isoformat(),) if facts.opens_at else ()
        return Shown(False, "outside_schedule", detail)
    return Shown(True)
