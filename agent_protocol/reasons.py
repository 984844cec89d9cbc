"""Why things end badly, and whose fault it is: the one table that decides credit, score and retry.

Codes travel on the wire and stand in the database; sentences are the English source for whoever translates them.
"""

from dataclasses import dataclass
from enum import StrEnum

from agent_protocol.texts import gettext_noop


class Owner(StrEnum):
    CUSTOMER = "customer"
    PROVIDER = "provider"
    PLATFORM = "platform"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Reason:
    """One way an attempt ends.

    credited: the customer gets the last hours of the time that the container ran back (billing's service credit).
    scored: the attempt counts in the provider's completion rate (as a success only for `completed`).
    retried: another attempt may follow, if the customer allows more than one.
    """

    code: str
    owner: Owner
    credited: bool
    scored: bool
    retried: bool
    sentence: str


def _customer(code: str, sentence: str) -> Reason:
    # The machine did what was asked of it: the time is paid, the provider's record is untouched, and a second attempt
    # would end the same way.
    return Reason(code, Owner.CUSTOMER, credited=False, scored=False, retried=False, sentence=sentence)


def _provider(code: str, sentence: str) -> Reason:
    return Reason(code, Owner.PROVIDER, credited=True, scored=True, retried=True, sentence=sentence)


def _platform(code: str, sentence: str, *, retried: bool = True) -> Reason:
    return Reason(code, Owner.PLATFORM, credited=False, scored=False, retried=retried, sentence=sentence)


def _unknown(code: str, sentence: str) -> Reason:
    return Reason(code, Owner.UNKNOWN, credited=False, scored=False, retried=True, sentence=sentence)


COMPLETED = "completed"

_REASONS = (
    Reason(
        COMPLETED,
        Owner.CUSTOMER,
        credited=False,
        scored=True,
        retried=False,
        sentence=gettext_noop("The command finished with exit code 0."),
    ),
    _customer("nonzero_exit", gettext_noop("The command finished with an exit code other than 0.")),
    _customer("out_of_memory", gettext_noop("The job used more memory than it had asked for.")),
    _customer("image_missing", gettext_noop("The registry does not have this image.")),
    _customer("image_unauthorized", gettext_noop("The registry refused access to this image.")),
    _customer("disk_limit", gettext_noop("The job wrote more than the disk space it had asked for.")),
    _customer("time_limit", gettext_noop("The job reached its time limit.")),
    _customer("cancelled", gettext_noop("The customer cancelled the job.")),
    _customer("balance_exhausted", gettext_noop("The customer's balance ran out.")),
    _customer("spend_limit", gettext_noop("The customer's spend limit was reached.")),
    _provider("gpu_lost", gettext_noop("The GPU fell off the bus while the job ran.")),
    _provider("gpu_fault", gettext_noop("The GPU reported a hardware fault while the job ran.")),
    _provider("engine_restart", gettext_noop("The container engine of the machine restarted.")),
    _provider("host_restart", gettext_noop("The machine restarted.")),
    _provider("host_disk_full", gettext_noop("The disk of the machine was full.")),
    _provider("device_injection_failed", gettext_noop("The machine could not hand its GPU to the container.")),
    _provider("container_create_failed", gettext_noop("The machine could not create the container.")),
    _provider("egress_unguarded", gettext_noop("The network rules of the machine were not in force.")),
    _provider("offline", gettext_noop("The machine was offline for longer than the job allows.")),
    _provider("lease_expired", gettext_noop("The machine did not confirm the job in time.")),
    _platform("registry_unavailable", gettext_noop("The image registry did not answer.")),
    _platform("registry_rate_limited", gettext_noop("The image registry limits how often images are pulled.")),
    _platform("platform_stop", gettext_noop("The platform stopped the job.")),
    _platform("platform_outage", gettext_noop("The platform could not be reached for longer than the job allows.")),
    _platform("orphaned", gettext_noop("The machine ran a job that the platform no longer knew.")),
    _unknown("secrets_lost", gettext_noop("The secrets of the job were handed out, once, and lost before it started.")),
    _unknown("never_started", gettext_noop("The job did not start in time.")),
    _unknown("unknown", gettext_noop("It is not known why the job ended.")),
)

REASONS: dict[str, Reason] = {reason.code: reason for reason in _REASONS}
REASON_CODES: tuple[str, ...] = tuple(REASONS)

# Reasons a platform may give when it asks for a stop. Anything else would be the platform judging what it cannot see.
STOP_REASONS: tuple[str, ...] = (
    "cancelled",
    "balance_exhausted",
    "spend_limit",
    "time_limit",
    "platform_stop",
    "lease_expired",
)


def reason_get(code: str) -> Reason:
    """The reason of a code; an unknown code is the reason `unknown`, never an error."""
    return REASONS.get(code, REASONS["unknown"])


# Xid events that mean the hardware failed (NVIDIA: double-bit ECC, row-remap failures, off the bus, contained and
# uncontained ECC errors, NVLink); other Xids are mostly the application's own doing.
FAULT_XIDS: frozenset[int] = frozenset({48, 63, 74, 79, 94, 95})
LOST_XIDS: frozenset[int] = frozenset({79})

# Why a card clocks lower than it could, by the bit of NVML's mask (nvml.h, nvmlClocksEventReason…).
THROTTLE_BITS: dict[int, str] = {
    0x001: "gpu_idle",
    0x002: "applications_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal",
    0x040: "hw_thermal",
    0x080: "hw_power_brake",
    0x100: "display_clock",
}
THROTTLE_REASONS: tuple[str, ...] = (*THROTTLE_BITS.values(), "other")
# The card protects itself from heat or from its power supply. A power cap is how every loaded card works.
THROTTLE_FAULTS: frozenset[str] = frozenset({"hw_slowdown", "hw_thermal", "hw_power_brake"})

BENCHMARK_FAILURES: dict[str, str] = {
    "no_cuda": gettext_noop("CUDA is not usable on this machine."),
    "not_installed": gettext_noop("The benchmark is not installed on this machine."),
    "unsupported_suite": gettext_noop("This agent does not know the requested benchmark suite."),
    "gpu_missing": gettext_noop("The GPU is not in this machine."),
    "gpu_lost": gettext_noop("The GPU fell off the bus while it was measured."),
    "gpu_busy": gettext_noop("Something else is using the GPU."),
    "out_of_memory": gettext_noop("The GPU does not have enough free memory for the benchmark."),
    "time_limit": gettext_noop("The benchmark took too long."),
    "challenge_refused": gettext_noop("The platform did not take the answer to its challenge."),
    "interrupted": gettext_noop("The agent was stopped while it measured."),
    "unknown": gettext_noop("The benchmark failed for an unknown reason."),
}

# What a host reports in `degraded`: it stays online but takes no new jobs.
DEGRADATIONS: dict[str, str] = {
    "nvml_missing": gettext_noop("The NVIDIA management library is not installed."),
    "nvml_mismatch": gettext_noop("The NVIDIA driver and its library differ in version; a reboot mends that."),
    "nvml_timeout": gettext_noop("The NVIDIA driver does not answer."),
    "nvml_failed": gettext_noop("The NVIDIA management library reports an error."),
    "driver_disagrees": gettext_noop(
        "The NVIDIA library shows GPUs or a version that the driver in the kernel does not have."
    ),
    "engine_unavailable": gettext_noop("The container engine does not answer."),
    "egress_unguarded": gettext_noop("The network rules for jobs are not in force; run the installer again."),
    "disk_low": gettext_noop("The disk of the machine is almost full."),
    "upgrade_required": gettext_noop("The agent is older than the platform accepts."),
}
