"""What a metric is called, what a finding means, and what its owner can do about it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agent_protocol.reasons import BENCHMARK_FAILURES

METRICS: dict[str, tuple[str | Promise, str]] = {
    "fp32_tflops": (_("FP32 (reported)"), "TFLOPS"),
    "fp16_tflops": (_("FP16 (uses tensor cores)"), "TFLOPS"),
    "tensor_tflops": (_("Tensor cores, best precision"), "TFLOPS"),
    "memory_read_gbps": (_("Memory read (reported)"), "GB/s"),
    "memory_write_gbps": (_("Memory write (reported)"), "GB/s"),
    "memory_copy_gbps": (_("Memory copy (reported)"), "GB/s"),
    "storage_read_mbps": (_("Storage read"), "MB/s"),
    "storage_write_mbps": (_("Storage write"), "MB/s"),
    "network_down_mbps": (_("Network down"), "Mbit/s"),
    "network_up_mbps": (_("Network up"), "Mbit/s"),
    "latency_ms": (_("Latency to the platform"), "ms"),
}

_SLOW_GPU = _(
    "Look at temperature, power limit and throttling with nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; stop other "
    "programs on the GPU; then retest."
)
_SLOW_MEMORY = _(
    "Look at memory clocks and ECC errors with nvidia-smi -q -d CLOCK,ECC; reseat the card if errors grow."
)
_SLOW_NETWORK = _("Test the line without other load, prefer a cable, and ask your carrier about limits; then retest.")
_SLOW_STORAGE = _("Keep Docker's data on an NVMe drive with free space, and look for a failing drive with smartctl.")
_MISSING = _("Run gpunex-agent check on the machine: it names what keeps this from being measured.")
_REVIEW = _("You need not do anything: a person looks at the figures and writes to you.")

_SLOW_PROOF = _(
    "The platform times the challenge itself. Look for a slow or broken line and for other work on the machine; it is "
    "measured again at once."
)

_TEXTS: dict[str, tuple[str | Promise, str | Promise]] = {
    "below_fp32": (_("FP32 is below the minimum."), _SLOW_GPU),
    "below_fp16": (_("FP16 is below the minimum."), _SLOW_GPU),
    "below_tensor": (_("Tensor performance is below the minimum."), _SLOW_GPU),
    "below_memory_read": (_("Reading GPU memory is below the minimum."), _SLOW_MEMORY),
    "below_memory_write": (_("Writing GPU memory is below the minimum."), _SLOW_MEMORY),
    "below_memory_copy": (_("Copying in GPU memory is below the minimum."), _SLOW_MEMORY),
    "network_too_slow": (_("The download speed is below the minimum for this much GPU memory."), _SLOW_NETWORK),
    "upload_too_slow": (_("The upload speed is below the minimum."), _SLOW_NETWORK),
    "latency_too_high": (_("The round trip to the platform takes too long."), _SLOW_NETWORK),
    "storage_read_too_slow": (_("Reading from storage is below the minimum."), _SLOW_STORAGE),
    "storage_write_too_slow": (_("Writing to storage is below the minimum."), _SLOW_STORAGE),
    "proof_wrong": (_("The answer to the challenge does not hold: recomputed rows differ."), _REVIEW),
    "proof_above_peak": (_("The challenge was answered faster than this model can multiply."), _REVIEW),
    "proof_withheld": (_("Twice in a row the challenge was answered, but the answer was not opened."), _REVIEW),
    "claim_above_timing": (
        _("The reported figure is more than the time that the platform measured bears out."),
        _SLOW_PROOF,
    ),
}

_FAILURES: dict[str, str | Promise] = {
    "no_answer": _("The machine did not answer in time; it is asked again."),
    "withdrawn": _("The card or machine left."),
    "superseded": _("A retest took its place."),
}


@dataclass(frozen=True)
class Explained:
    """A stored finding (verification.Reason.to_dict), in the language in force when it is read."""

    finding: dict[str, Any]

    @property
    def code(self) -> str:
        return str(self.finding["code"])

    @property
    def unit(self) -> str:
        return METRICS.get(self.finding["metric"], ("", ""))[1]

    @property
    def measured(self) -> Decimal | None:
        return self._number("measured")

    @property
    def limit(self) -> Decimal | None:
        return self._number("limit")

    @property
    def sentence(self) -> str:
        if self.code in _TEXTS:
            return str(_TEXTS[self.code][0])
        metric = METRICS.get(self.finding["metric"], (self.finding["metric"], ""))[0]
        if self.code.startswith("missing_"):
            return gettext("%(metric)s could not be measured.") % {"metric": metric}
        return gettext("%(metric)s is above what this model can do.") % {"metric": metric}

    @property
    def remedy(self) -> str:
        if self.code in _TEXTS:
            return str(_TEXTS[self.code][1])
        return str(_MISSING if self.code.startswith("missing_") else _REVIEW)

    def _number(self, name: str) -> Decimal | None:
        return None if self.finding[name] is None else Decimal(self.finding[name])


def run_reason(code: str) -> str:
    """Why a run came to nothing, in words; empty for none."""
    if not code:
        return ""
    known = _FAILURES.get(code)
    if known is not None:
        return str(known)
    return gettext(BENCHMARK_FAILURES.get(code, BENCHMARK_FAILURES["unknown"]))
