"""What an agent is started with, checked before anything happens."""

import ipaddress
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agent.errors import AgentError

TOKEN_VARIABLE = "GPUNEX_TOKEN"
RUNTIMES = ("process", "docker")
PROBES = ("nvml", "simulated")
NETWORKS = ("none", "bridge")
DEVICES = ("engine", "none")

# A container gets this long between TERM and KILL; the platform's own patience (10 minutes) is far above it.
STOP_GRACE_S = 30.0
# Where the guard listens: in a volume that its container and the agent's share.
GUARD_ADDRESS = "unix:///run/gpunex/guard.sock"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`sync_interval_s` null: the platform says how often. `gpus` null: all of them are offered.

    `job_network` is `none` until the egress rules are installed on the host: without them a job on a bridge could reach
    the provider's own network; `egress_image` is the image that looks whether they hold, the agent's own. `benchmark_python`
    and `benchmark_options` run the suite where there is no engine: an interpreter with torch, and options. `registries`
    are the operator's additions to agent_protocol.images. `devices` says where a job's GPUs come from: the
    container engine hands them out, or, since simulated ones exist nowhere, nobody.
    """

    url: str
    state: Path
    runtime: str
    probe: str
    simulated_profile: Path | None = None
    name: str | None = None
    gpus: frozenset[str] | None = None
    token_file: Path | None = None
    sync_interval_s: float | None = None
    stop_grace_s: float = STOP_GRACE_S
    docker_host: str | None = None
    job_network: str = "none"
    egress_image: str | None = None
    registries: frozenset[str] = frozenset()
    devices: str = "engine"
    log_level: str = "INFO"
    benchmark_python: str = sys.executable
    benchmark_options: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises AgentError naming the option, what was found and what is allowed."""
        url_check(self.url)
        if self.runtime not in RUNTIMES:
            raise AgentError(f"--runtime: found {self.runtime}, allowed: {', '.join(RUNTIMES)}")
        if self.probe not in PROBES:
            raise AgentError(f"--probe: found {self.probe}, allowed: {', '.join(PROBES)}")
        if self.runtime == "process" and not is_loopback(self.url):
            raise AgentError(
                f"--runtime process: found the platform at {urlsplit(self.url).hostname}, allowed: a platform on this "
                "machine (127.0.0.1). This runtime isolates nothing, it is for demonstrations; use --runtime docker."
            )
        if self.probe == "simulated" and self.simulated_profile is None:
            raise AgentError("--simulated-profile: found nothing, allowed: a JSON file with the GPUs to simulate")
        if self.devices == "none" and self.probe != "simulated":
            raise AgentError("--devices: found none, allowed: engine (a real GPU that is rented is handed out)")
        if self.job_network != "none" and not self.egress_image:
            raise AgentError(
                f"--egress-image: found nothing, allowed with --job-network {self.job_network}: the agent's image by "
                "digest, to look before each job whether the network rules hold"
            )
        for option, value in (("--sync-interval", self.sync_interval_s), ("--stop-grace", self.stop_grace_s)):
            if value is not None and not (math.isfinite(value) and 0.01 <= value <= 3600):
                raise AgentError(f"{option}: found {value}, allowed: 0.01 to 3600 seconds")


def url_check(url: str) -> None:
    """An https origin, or plain http on this machine: the credential must not travel in the clear."""
    parts = urlsplit(url)
    try:
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.scheme not in ("http", "https") or parts.username or parts.query or parts.fragment:
        raise AgentError(f"--url: found {url!r}, allowed: an address like https://gpunex.example")
    if parts.scheme == "http" and not is_loopback(url):
        raise AgentError(f"--url: found {url!r}, allowed: https (plain http only to 127.0.0.1)")


def is_loopback(url: str) -> bool:
    """Whether the host part names this machine and nothing else. Names other than localhost are never believed."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def token_read(settings: Settings) -> str | None:
    """The enrolment token: environment, then file, then a prompt on the terminal; null when there is none of them.

    Never from argv, which every process on the host can read. It leaves the environment so that no child inherits it.
    """
    token = os.environ.pop(TOKEN_VARIABLE, "").strip()
    if token:
        return token
    if settings.token_file is not None:
        try:
            return settings.token_file.read_text().strip() or None
        except (OSError, UnicodeDecodeError) as error:
            raise AgentError(f"--token-file: cannot read {settings.token_file}: {error}") from None
    return _token_prompt()


def _token_prompt() -> str | None:
    if not sys.stderr.isatty():
        return None
    try:
        with open("/dev/tty", "r+", encoding="utf-8") as terminal:
            terminal.write("Enrolment token (from the approval e-mail): ")
            terminal.flush()
            return terminal.readline().strip() or None
    except OSError:
        return None
