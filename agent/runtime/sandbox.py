"""What a job's container may do: the create request, built from an order. Pure, so that each flag can be tested."""

import io
import tarfile
from typing import Any

from docker.types import DeviceRequest, LogConfig, Ulimit

from agent.runtime.base import JobOrder

LABEL_JOB = "gpunex.job_id"
LABEL_ATTEMPT = "gpunex.attempt_id"
LABEL_MACHINE = "gpunex.machine_id"
LABEL_LOG_LIMIT = "gpunex.log_limit"

UNPRIVILEGED_USER = "65534:65534"
WORKSPACE = "/workspace"
WORKSPACE_IMAGE = "gpunex-workspace:1"
SCRATCH = "/tmp"  # noqa: S108 (inside the container)
# Scratch space counts against the job's memory, so it needs no generous bound of its own.
TMP_BYTES = 1024 * 1024 * 1024
# An image's own VOLUMEs would be unbounded folders on the host's disk; they become small scratch spaces instead.
IMAGE_VOLUME_BYTES = 64 * 1024 * 1024
# The engine's own log is read once, into our bounded copy; this much more than the limit covers its framing.
_ENGINE_LOG_SLACK = 1024 * 1024

# These steer the loader and NVIDIA's runtime hook; what a customer or an image says in them would reach the host's
# side of the sandbox.
_SCRUBBED_PREFIXES = ("LD_", "NVIDIA_")
_SCRUBBED_NAMES = frozenset({"CUDA_VISIBLE_DEVICES"})
_IMAGE_NEUTRALIZED = ("LD_PRELOAD", "LD_AUDIT")


def environment_scrubbed(environment: dict[str, str]) -> dict[str, str]:
    """The customer's environment without the names that steer loader and GPU injection."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _SCRUBBED_NAMES and not name.startswith(_SCRUBBED_PREFIXES)
    }


def job_environment(order: JobOrder, image_environment: list[str]) -> dict[str, str]:
    """Scrubbed environment plus ours. GPU variables are always set: an image's own `all` must not win."""
    environment = environment_scrubbed(order.plan.environment)
    for entry in image_environment:
        name = entry.partition("=")[0]
        if name in _IMAGE_NEUTRALIZED:
            environment[name] = ""
    environment["HOME"] = environment.get("HOME", WORKSPACE)
    environment["NVIDIA_VISIBLE_DEVICES"] = ",".join(order.plan.gpu_uuids) or "void"
    environment["NVIDIA_DRIVER_CAPABILITIES"] = "compute,utility"
    return environment


def device_requests(order: JobOrder) -> list[DeviceRequest]:
    """Exactly the ordered GPUs, by UUID: an index may mean another card after a reboot."""
    if not order.plan.gpu_uuids:
        return []
    return [DeviceRequest(device_ids=list(order.plan.gpu_uuids), capabilities=[["gpu", "compute", "utility"]])]


def host_config(
    order: JobOrder, *, volume: str, network: str, image_volumes: list[str], devices: bool = True
) -> dict[str, Any]:
    """Arguments of `create_host_config`. The customer's order can only tighten what stands here.

    `devices`: the engine hands out the ordered GPUs; without it (simulated ones) it is asked for none.
    """
    limits = order.plan.limits
    tmpfs = {SCRATCH: f"rw,nosuid,nodev,mode=1777,size={min(TMP_BYTES, limits.memory_bytes)}"}
    for path in image_volumes:
        if path not in (WORKSPACE, SCRATCH):
            tmpfs[path] = f"rw,nosuid,nodev,mode=1777,size={IMAGE_VOLUME_BYTES}"
    return {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        "tmpfs": tmpfs,
        # nocopy: what the image has at that place would come with its owner, and shut the job out.
        "binds": [f"{volume}:{WORKSPACE}:rw,nocopy"],
        "mem_limit": limits.memory_bytes,
        # Equal to the memory limit: no swap, so a job that outgrows its memory ends instead of grinding the host.
        "memswap_limit": limits.memory_bytes,
        "nano_cpus": int(limits.cpus * 1_000_000_000),
        "pids_limit": limits.pids,
        "shm_size": limits.shm_bytes or None,
        "ulimits": [Ulimit(name="core", soft=0, hard=0)],
        "init": True,
        "restart_policy": {"Name": "no"},
        "network_mode": network,
        "ipc_mode": "private",
        # The `local` driver keeps bytes as they are; json-file would replace what is not UTF-8.
        "log_config": LogConfig(
            type="local",
            config={
                "max-size": str(order.plan.log_limit_bytes * 2 + _ENGINE_LOG_SLACK),
                "max-file": "2",
                "compress": "false",
            },
        ),
        "device_requests": device_requests(order) if devices else [],
        "publish_all_ports": False,
        "privileged": False,
    }


def labels(order: JobOrder) -> dict[str, str]:
    return {
        LABEL_JOB: order.plan.job_id,
        LABEL_ATTEMPT: order.plan.attempt_id,
        LABEL_MACHINE: order.machine_id,
        LABEL_LOG_LIMIT: str(order.plan.log_limit_bytes),
    }


def workspace_image() -> bytes:
    """A root file system that holds nothing but the workspace folder, owned by the job's user.

    An engine that mounts a new volume over a folder of an image gives it that folder's owner: creating a container of
    this image (never starting it) is how a volume comes to belong to the job without anyone being root in a container.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(WORKSPACE.lstrip("/"))
        entry.type = tarfile.DIRTYPE
        entry.mode = 0o700
        entry.uid = entry.gid = int(UNPRIVILEGED_USER.partition(":")[0])
        archive.addfile(entry)
    return buffer.getvalue()
