"""What a job's container may do: the create request, built from an order. Pure, so that each flag can be tested."""

import posixpath
from typing import Any

from docker.types import DeviceRequest, LogConfig, Ulimit

from agent.confinement import (
    ENGINE_LOG_SLACK,
    GPU_CAPABILITIES,
    IMAGE_VOLUME_BYTES,
    JOB_RESOLVERS,
    LABEL_ATTEMPT,
    LABEL_JOB,
    LABEL_LOG_LIMIT,
    LABEL_MACHINE,
    SCRATCH,
    TMP_BYTES,
    WORKSPACE,
    bridge_name,
    gpu_environment,
    image_steering,
    is_steering,
)
from agent.runtime.base import JobOrder

# Where an order names no size; the engine's own default.
_SHM_BYTES = 64 * 1024 * 1024
_SCRUBBED_NAMES = frozenset({"CUDA_VISIBLE_DEVICES"})


def environment_scrubbed(environment: dict[str, str]) -> dict[str, str]:
    """The customer's environment without the names that steer loader and GPU injection."""
    return {name: value for name, value in environment.items() if name not in _SCRUBBED_NAMES and not is_steering(name)}


def job_environment(order: JobOrder, image_environment: list[str], *, devices: bool = True) -> dict[str, str]:
    """Scrubbed environment plus ours. GPU variables are always set: an image's own `all` must not win."""
    environment = environment_scrubbed(order.plan.environment)
    environment |= dict.fromkeys(image_steering(image_environment), "")
    environment["HOME"] = environment.get("HOME", WORKSPACE)
    return environment | gpu_environment(list(order.plan.gpu_uuids) if devices else [])


def device_requests(order: JobOrder) -> list[DeviceRequest]:
    """Exactly the ordered GPUs, by UUID: an index may mean another card after a reboot."""
    if not order.plan.gpu_uuids:
        return []
    return [DeviceRequest(device_ids=list(order.plan.gpu_uuids), capabilities=[list(GPU_CAPABILITIES)])]


def host_config(
    order: JobOrder, *, volume: str, network: str, image_volumes: list[str], devices: bool = True
) -> dict[str, Any]:
    """Arguments of `create_host_config`. The customer's order can only tighten what stands here.

    `devices`: the engine hands out the ordered GPUs; without it (simulated ones) it is asked for none.
    """
    limits = order.plan.limits
    tmpfs = {SCRATCH: f"rw,nosuid,nodev,mode=1777,size={min(TMP_BYTES, limits.memory_bytes)}"}
    for path in map(posixpath.normpath, image_volumes):
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
        "shm_size": limits.shm_bytes or min(_SHM_BYTES, limits.memory_bytes),
        "ulimits": [Ulimit(name="core", soft=0, hard=0)],
        "init": True,
        "restart_policy": {"Name": "no"},
        "network_mode": network,
        **({} if network == "none" else {"dns": list(JOB_RESOLVERS)}),
        "ipc_mode": "private",
        # The `local` driver keeps bytes as they are; json-file would replace what is not UTF-8.
        "log_config": LogConfig(
            type="local",
            config={
                "max-size": str(order.plan.log_limit_bytes * 2 + ENGINE_LOG_SLACK),
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


# An image's own check would run beside the job, and fill the engine's short memory of events.
NO_HEALTHCHECK = {"test": ["NONE"]}


def network_options(network: str) -> dict[str, str]:
    """A bridge of the job's own, under a name that the host's egress rules match."""
    return {"com.docker.network.bridge.enable_icc": "false", "com.docker.network.bridge.name": bridge_name(network)}
