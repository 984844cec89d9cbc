"""What a host must have before it may join: one table for the installer, `agent check`, the platform, the docs.

The installer is a shell script: agent_protocol.installer writes this table into it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from agent_protocol.texts import gettext_noop
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

# One image of a current framework, unpacked, and room for a job to write: less than this and the first job fails.
MINIMUM_DISK_FREE_GB = "30"


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """What was found on the host; null is "could not be found out".

    engine: docker, docker-rootless, docker-desktop or podman. disk_free_gb: 10^9 bytes, where the engine keeps images.
    """

    system: str | None = None
    architecture: str | None = None
    is_wsl: bool | None = None
    privileged: bool | None = None
    engine: str | None = None
    engine_running: bool | None = None
    engine_version: str | None = None
    disk_free_gb: int | None = None
    packet_filter: bool | None = None
    driver_version: str | None = None
    gpu_count: int | None = None
    toolkit_version: str | None = None
    gpu_in_container: bool | None = None


class CheckStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class OneOf:
    """What was found is one of these words, in whatever case."""

    allowed: tuple[str, ...]

    def passes(self, actual: str) -> bool:
        return actual.lower() in self.allowed


@dataclass(frozen=True)
class AtLeast:
    """What was found begins with a number, or a dotted version, that is not below this one."""

    minimum: str

    def passes(self, actual: str) -> bool:
        return version_at_least(actual, self.minimum)


@dataclass(frozen=True)
class HostCheck:
    """`required`, `purpose` and `remedy` are English sources shown to the provider."""

    id: str
    required: str
    purpose: str
    remedy: str
    actual: Callable[[HostFacts], str | None]
    rule: OneOf | AtLeast


@dataclass(frozen=True)
class CheckResult:
    """`actual` is null, and the status `unknown`, where the fact could not be found out."""

    id: str
    status: CheckStatus
    actual: str | None
    required: str
    purpose: str
    remedy: str


def _number(value: int | None, unit: str = "") -> str | None:
    return None if value is None else f"{value} {unit}".strip()


def _yes_no(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"


HOST_CHECKS: tuple[HostCheck, ...] = (
    HostCheck(
        "operating_system",
        "Linux",
        gettext_noop("Containers share the kernel of the machine."),
        gettext_noop("Install the agent on a machine that runs Linux."),
        lambda facts: facts.system,
        OneOf(("linux",)),
    ),
    HostCheck(
        "architecture",
        "x86_64",
        gettext_noop("The images that customers run are built for x86-64."),
        gettext_noop("Use a machine with a 64-bit Intel or AMD processor."),
        lambda facts: facts.architecture,
        OneOf(("x86_64", "amd64")),
    ),
    HostCheck(
        "not_wsl",
        gettext_noop("no WSL"),
        gettext_noop("Under the Windows Subsystem for Linux a GPU cannot be reserved for one container."),
        gettext_noop("Install Linux on the machine itself."),
        lambda facts: _yes_no(facts.is_wsl),
        OneOf(("no",)),
    ),
    HostCheck(
        "privileges",
        gettext_noop("root, or a user with sudo"),
        gettext_noop("The installer speaks to the engine and writes into /etc/gpunex."),
        gettext_noop("Run the installer as root, or as a user who may use sudo."),
        lambda facts: _yes_no(facts.privileged),
        OneOf(("yes",)),
    ),
    HostCheck(
        "engine",
        "docker",
        gettext_noop(
            "Podman drops GPU requests without an error: a job would run on the processor and still exit with 0. Rootless "
            "Docker and Docker Desktop cannot keep jobs off your own network."
        ),
        gettext_noop(
            "Install Docker Engine from docs.docker.com/engine/install as a system service, and remove podman-docker."
        ),
        lambda facts: facts.engine,
        OneOf(("docker",)),
    ),
    HostCheck(
        "engine_running",
        gettext_noop("yes"),
        gettext_noop("The agent runs jobs through the engine."),
        gettext_noop("Run: systemctl enable --now docker"),
        lambda facts: _yes_no(facts.engine_running),
        OneOf(("yes",)),
    ),
    HostCheck(
        "engine_version",
        gettext_noop("24.0 or newer"),
        gettext_noop("Older engines miss sandbox features and security fixes that jobs rely on."),
        gettext_noop("Update Docker Engine from docs.docker.com/engine/install"),
        lambda facts: facts.engine_version,
        AtLeast(MINIMUM_ENGINE_VERSION),
    ),
    HostCheck(
        "disk_free",
        gettext_noop("30 GB or more"),
        gettext_noop("Images of jobs are unpacked where the engine keeps its data."),
        gettext_noop(
            "Free some space there (docker system df shows what the engine uses), or move the engine's data-root."
        ),
        lambda facts: _number(facts.disk_free_gb, "GB"),
        AtLeast(MINIMUM_DISK_FREE_GB),
    ),
    HostCheck(
        "packet_filter",
        gettext_noop("yes"),
        gettext_noop("Jobs may reach the internet but not your own network; rules of nftables see to it."),
        gettext_noop("Install nftables (apt-get install nftables), or give jobs no network: --network none"),
        lambda facts: _yes_no(facts.packet_filter),
        OneOf(("yes",)),
    ),
    HostCheck(
        "driver_version",
        gettext_noop("550.0 or newer"),
        gettext_noop("Images built with current CUDA versions need it."),
        gettext_noop("Update the NVIDIA driver and reboot."),
        lambda facts: facts.driver_version,
        AtLeast(MINIMUM_DRIVER_VERSION),
    ),
    HostCheck(
        "gpu_count",
        gettext_noop("1 or more"),
        gettext_noop("There must be a GPU to offer; nvidia-smi lists those that the driver sees."),
        gettext_noop(
            "Run nvidia-smi: it must list your cards without an error. Look at dmesg if it does not, and reboot."
        ),
        lambda facts: _number(facts.gpu_count),
        AtLeast("1"),
    ),
    HostCheck(
        "toolkit_version",
        gettext_noop("1.18.2 or newer"),
        gettext_noop(
            "Older NVIDIA Container Toolkits let a container escape (CVE-2024-0132, CVE-2025-23359, CVE-2025-23266)."
        ),
        gettext_noop("Update nvidia-container-toolkit, then run: systemctl restart docker"),
        lambda facts: facts.toolkit_version,
        AtLeast(MINIMUM_TOOLKIT_VERSION),
    ),
    HostCheck(
        "gpu_in_container",
        gettext_noop("yes"),
        gettext_noop("A container must be able to use the GPU that it was given."),
        gettext_noop("Run: nvidia-ctk runtime configure --runtime=docker && systemctl restart docker"),
        lambda facts: _yes_no(facts.gpu_in_container),
        OneOf(("yes",)),
    ),
)


def evaluate(facts: HostFacts) -> tuple[CheckResult, ...]:
    """Every rule against the facts, in the order of the table. Pure."""
    return tuple(_evaluate_one(check, facts) for check in HOST_CHECKS)


def _evaluate_one(check: HostCheck, facts: HostFacts) -> CheckResult:
    actual = check.actual(facts)
    if actual is None:
        status = CheckStatus.UNKNOWN
    else:
        status = CheckStatus.PASSED if check.rule.passes(actual) else CheckStatus.FAILED
    return CheckResult(check.id, status, actual, check.required, check.purpose, check.remedy)
