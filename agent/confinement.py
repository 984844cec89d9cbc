"""How a job's things are named, marked and confined: the words that the sandbox and the guard share.

Standard library only, so that the guard's image holds nothing else. The sandbox builds requests from these; the guard
checks every request against them and believes nobody.
"""

import hashlib
import posixpath
import re

LABEL_JOB = "gpunex.job_id"
LABEL_ATTEMPT = "gpunex.attempt_id"
LABEL_MACHINE = "gpunex.machine_id"
LABEL_LOG_LIMIT = "gpunex.log_limit"
# Put on by the guard itself: what does not carry it was not made through the guard.
LABEL_GUARD = "gpunex.guard"
GUARD_MARK = "1"
# How the guard names itself among the components of `GET /version`.
GUARD_COMPONENT = "GPUnex guard"

# See agent.runtime.base.job_name: ids are canonical UUIDs.
JOB_NAME = re.compile(r"gpunex-job-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-[1-9][0-9]{0,3}")

UNPRIVILEGED_USER = "65534:65534"
WORKSPACE = "/workspace"
SCRATCH = "/tmp"  # noqa: S108 (inside the container)
# Scratch space counts against the job's memory, so it needs no generous bound of its own.
TMP_BYTES = 1024 * 1024 * 1024
# An image's own VOLUMEs would be unbounded folders on the host's disk; they become small scratch spaces instead.
IMAGE_VOLUME_BYTES = 64 * 1024 * 1024
# The engine's own log is read once, into our bounded copy; this much more than twice the limit covers its framing.
ENGINE_LOG_SLACK = 1024 * 1024

BRIDGE_PREFIX = "gpx"
# Whom a job with a network asks for names, by way of the engine. Without them the engine would ask the machine's own servers,
# and where these listen on the machine itself (dnsmasq, unbound) it would do so from there, past the egress rules: a job could
# learn the names of the owner's network. `egress.nft` sends questions to private servers to the first of them.
JOB_RESOLVERS = ("1.1.1.1", "1.0.0.1")
GPU_CAPABILITIES = ("gpu", "compute", "utility")
NO_GPU = "void"

# These steer the loader and NVIDIA's runtime hook; what a customer or an image says in them would reach the host's side
# of the sandbox (CVE-2025-23266 was a hook that inherited an image's LD_PRELOAD).
STEERING_PREFIXES = ("LD_", "NVIDIA_")
STEERING_NAMES = frozenset({"GLIBC_TUNABLES"})
# Where a loader may look: folders that a container cannot write to, in the host's view as well as in its own.
_LIBRARY_ROOTS = ("/usr/", "/opt/", "/lib/", "/lib64/")
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._+/-]*")


def bridge_name(network: str) -> str:
    """The host's interface of a job's network: at most 15 characters, and the egress rules match `gpx*`."""
    return BRIDGE_PREFIX + hashlib.sha256(network.encode()).hexdigest()[:12]


def is_steering(name: str) -> bool:
    """Whether an environment variable speaks to the loader or to GPU injection."""
    return name in STEERING_NAMES or name.startswith(STEERING_PREFIXES)


def gpu_environment(gpu_uuids: list[str]) -> dict[str, str]:
    """Always set, so that an image's own words never win. Requirements of an image are for placement, not for the hook:
    a card that is too old for an image is not a broken machine."""
    return {
        "NVIDIA_VISIBLE_DEVICES": ",".join(gpu_uuids) or NO_GPU,
        "NVIDIA_DRIVER_CAPABILITIES": ",".join(GPU_CAPABILITIES[1:]),
        "NVIDIA_DISABLE_REQUIRE": "1",
    }


def image_steering(image_environment: list[str]) -> list[str]:
    """Names in an image's environment that must be overridden (`NAME=` switches them off)."""
    names = []
    for entry in image_environment:
        name, _, value = entry.partition("=")
        if is_steering(name) and not (name == "LD_LIBRARY_PATH" and _library_path_is_harmless(value)):
            names.append(name)
    return names


def _library_path_is_harmless(value: str) -> bool:
    """CUDA images need theirs. An empty part would mean the current folder."""
    return all(
        _PLAIN_PATH.fullmatch(part)
        and posixpath.normpath(part) == part.rstrip("/")
        and f"{part}/".startswith(_LIBRARY_ROOTS)
        for part in value.split(":")
    )
