"""What a host must have before it may join: one table for the installer, `agent check`, the platform, the docs."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from agent_protocol.version import version_at_least

MINIMUM_ENGINE_VERSION = "24.0"
MINIMUM_DRIVER_VERSION = "550.0"

# Version of the NVIDIA Container Toolkit in which each container escape was closed. The floor is the newest of them,
# or the newest later release that we have tried ourselves.
TOOLKIT_FIXES: dict[str, str] = {
    "CVE-2024-0132": "1.16.2",
    "CVE-2025-23359": "1.17.4",
    "CVE-2025-23266": "1.17.8",
}
MINIMUM_TOOLKIT_VERSION = "1.18.2"


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """What was found on the host; null is "could not be found out"."""

    system: str | None = None
    architecture: str | None = None
    is_wsl: bool | None = None
    engine: str | None = None
    engine_running: bool | None = None
    engine_version: str | None = None
    driver_version: str | None = None
    toolkit_version: str | None = None
    gpu_in_container: bool | None = None


class CheckStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class HostCheck:
    """A rule. `required`, `purpose` and `remedy` are English sources shown to the provider."""

    id: str
    required: str
    purpose: str
    remedy: str
    actual: Callable[[HostFacts], str | None]
    passes: Callable[[str], bool]


@dataclass(frozen=True)
class CheckResult:
    """`actual` is null, and the status `unknown`, where the fact could not be found out."""

    id: str
    status: CheckStatus
    actual: str | None
    required: str
    purpose: str
    remedy: str


def _yes_no(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"


HOST_CHECKS: tuple[HostCheck, ...] = (
    HostCheck(
        "operating_system",
        "Linux",
        "Containers share the kernel of the machine.",
        "Install the agent on a machine that runs Linux.",
        lambda facts: facts.system,
        lambda actual: actual.lower() == "linux",
    ),
    HostCheck(
        "architecture",
        "x86_64",
        "The images that customers run are built for x86-64.",
        "Use a machine with a 64-bit Intel or AMD processor.",
        lambda facts: facts.architecture,
        lambda actual: actual.lower() in ("x86_64", "amd64"),
    ),
    HostCheck(
        "not_wsl",
        "no WSL",
        "Under the Windows Subsystem for Linux a GPU cannot be reserved for one container.",
        "Install Linux on the machine itself.",
        lambda facts: _yes_no(facts.is_wsl),
        lambda actual: actual == "no",
    ),
    HostCheck(
        "engine",
        "docker",
        "Podman drops GPU requests without an error: a job would run on the processor and still exit with 0.",
        "Install Docker Engine from docs.docker.com/engine/install and remove the podman-docker package.",
        lambda facts: facts.engine,
        lambda actual: actual.lower() == "docker",
    ),
    HostCheck(
        "engine_running",
        "yes",
        "The agent runs jobs through the engine.",
        "Run: systemctl enable --now docker",
        lambda facts: _yes_no(facts.engine_running),
        lambda actual: actual == "yes",
    ),
    HostCheck(
        "engine_version",
        f"{MINIMUM_ENGINE_VERSION} or newer",
        "Older engines miss sandbox features and security fixes that jobs rely on.",
        "Update Docker Engine from docs.docker.com/engine/install",
        lambda facts: facts.engine_version,
        lambda actual: version_at_least(actual, MINIMUM_ENGINE_VERSION),
    ),
    HostCheck(
        "driver_version",
        f"{MINIMUM_DRIVER_VERSION} or newer",
        "Images built with current CUDA versions need it.",
        "Update the NVIDIA driver and reboot.",
        lambda facts: facts.driver_version,
        lambda actual: version_at_least(actual, MINIMUM_DRIVER_VERSION),
    ),
    HostCheck(
        "toolkit_version",
        f"{MINIMUM_TOOLKIT_VERSION} or newer",
        "Older NVIDIA Container Toolkits let a container escape (" + ", ".join(TOOLKIT_FIXES) + ").",
        "Update nvidia-container-toolkit, then run: systemctl restart docker",
        lambda facts: facts.toolkit_version,
        lambda actual: version_at_least(actual, MINIMUM_TOOLKIT_VERSION),
    ),
    HostCheck(
        "gpu_in_container",
        "yes",
        "A container must be able to use the GPU that it was given.",
        "Run: nvidia-ctk runtime configure --runtime=docker && systemctl restart docker",
        lambda facts: _yes_no(facts.gpu_in_container),
        lambda actual: actual == "yes",
    ),
)


def evaluate(facts: HostFacts) -> tuple[CheckResult, ...]:
    """Every rule against the facts, in the order of the table. Pure."""
    return tuple(_evaluate_one(rule, facts) for rule in HOST_CHECKS)


def _evaluate_one(rule: HostCheck, facts: HostFacts) -> CheckResult:
    actual = rule.actual(facts)
    if actual is None:
        status = CheckStatus.UNKNOWN
    else:
        status = CheckStatus.PASSED if rule.passes(actual) else CheckStatus.FAILED
    return CheckResult(rule.id, status, actual, rule.required, rule.purpose, rule.remedy)
