"""`HostConfig` of a job's container: the only one that there is, field by field."""

import posixpath
import re
from typing import Any

from agent.confinement import (
    ENGINE_LOG_SLACK,
    GPU_CAPABILITIES,
    IMAGE_VOLUME_BYTES,
    JOB_RESOLVERS,
    SCRATCH,
    TMP_BYTES,
    WORKSPACE,
)
from agent.guard.errors import Refused, shown
from agent.guard.fields import Exactly, Rule, Table, Whole
from agent.guard.policy import Policy

# What the kernel allows at most on common hosts, and far more than a job needs.
MAX_PIDS = 65_536
# Four times what the platform keeps of a log; the engine's copy is twice the limit and some slack.
MAX_LOG_BYTES = 2 * 64 * 1024 * 1024 + ENGINE_LOG_SLACK
MAX_IMAGE_VOLUMES = 32
# Rendering jobs get these too, on request.
_CAPABILITIES = frozenset({*GPU_CAPABILITIES, "video", "graphics"})
_CDI_PREFIX = "nvidia.com/gpu="
_TMPFS = re.compile(r"rw,nosuid,nodev,mode=1777,size=([1-9][0-9]{0,15})")
_VOLUME = re.compile(r"/[^/\x00-\x1f].*")
_DIGITS = re.compile(r"[1-9][0-9]{0,15}")
# The kernel's own folders: nothing is mounted over them, whatever an image declares.
_KERNEL = ("/proc", "/sys", "/dev")
_REQUIRED = (
    "Memory MemorySwap NanoCpus PidsLimit ShmSize IpcMode ReadonlyRootfs NetworkMode CapDrop SecurityOpt Binds Ulimits "
    "LogConfig Tmpfs Init"
)


def host_config_check(
    value: Any, *, name: str, image_volumes: list[str], policy: Policy
) -> tuple[dict[str, Any], list[str]]:
    """The HostConfig to pass on, and the UUIDs of its GPUs. Raises Refused."""
    gpus = _Gpus(policy)
    rules: dict[str, Rule] = {
        "Memory": Whole(1, policy.memory_bytes),
        "MemorySwap": Whole(1, policy.memory_bytes),
        "ShmSize": Whole(1, policy.memory_bytes),
        "NanoCpus": Whole(1, policy.cpus * 1_000_000_000),
        "PidsLimit": Whole(1, MAX_PIDS),
        "IpcMode": Exactly(["private"]),
        "CgroupnsMode": Exactly(["private"]),
        "ReadonlyRootfs": Exactly([True]),
        "Privileged": Exactly([False]),
        "PublishAllPorts": Exactly([False]),
        "AutoRemove": Exactly([False]),
        "NetworkMode": Exactly(["none", name] if policy.networks else ["none"]),
        "RestartPolicy": Exactly([{"Name": "no"}, {"Name": "no", "MaximumRetryCount": 0}]),
        "CapDrop": Exactly([["ALL"]]),
        "SecurityOpt": Exactly([["no-new-privileges"], ["no-new-privileges:true"]]),
        "Binds": Exactly([[f"{name}:{WORKSPACE}:rw,nocopy"]]),
        "Ulimits": Exactly([[{"Name": "core", "Soft": 0, "Hard": 0}]]),
        "LogConfig": Table({"Type": Exactly(["local"]), "Config": _LogOptions()}, frozenset({"Type", "Config"})),
        "Tmpfs": _Tmpfs(image_volumes),
        "Dns": Exactly([[], list(JOB_RESOLVERS)]),
        "Init": Exactly([True]),
        "DeviceRequests": gpus,
    }
    checked: dict[str, Any] = Table(rules, frozenset(_REQUIRED.split())).check(value, "HostConfig")
    if checked["MemorySwap"] != checked["Memory"]:
        raise Refused("HostConfig.MemorySwap", shown(checked["MemorySwap"]), "the same as Memory: no swap")
    resolvers = list(JOB_RESOLVERS) if checked["NetworkMode"] != "none" else []
    if checked.get("Dns", []) != resolvers:
        raise Refused("HostConfig.Dns", shown(checked.get("Dns")), shown(resolvers))
    return checked, gpus.uuids


class _LogOptions(Rule):
    def check(self, value: Any, where: str) -> dict[str, str]:
        allowed = {"max-size": None, "max-file": "2", "compress": "false"}
        if not isinstance(value, dict) or set(value) != set(allowed):
            raise Refused(where, shown(value), f"exactly the options {', '.join(sorted(allowed))}")
        for option, wanted in allowed.items():
            if wanted is not None and value[option] != wanted:
                raise Refused(f"{where}.{option}", shown(value[option]), shown(wanted))
        size = value["max-size"]
        if not isinstance(size, str) or not _DIGITS.fullmatch(size) or int(size) > MAX_LOG_BYTES:
            raise Refused(f"{where}.max-size", shown(size), f"1 to {MAX_LOG_BYTES}")
        return dict(value)


class _Tmpfs(Rule):
    """The scratch folder, and one for each VOLUME of the image: exactly these, each bounded."""

    def __init__(self, image_volumes: list[str]) -> None:
        self._bounds = {SCRATCH: TMP_BYTES}
        if len(image_volumes) > MAX_IMAGE_VOLUMES:
            raise Refused("Image", f"{len(image_volumes)} VOLUMEs", f"an image with at most {MAX_IMAGE_VOLUMES}")
        for path in image_volumes:
            cleaned = posixpath.normpath(path)
            if not _VOLUME.fullmatch(cleaned) or f"{cleaned}/".startswith(_over_kernel()):
                raise Refused("Image", f"a VOLUME {shown(path)}", "a folder below /, and none of the kernel's")
            if cleaned not in (WORKSPACE, SCRATCH):
                self._bounds[cleaned] = IMAGE_VOLUME_BYTES

    def check(self, value: Any, where: str) -> dict[str, str]:
        if not isinstance(value, dict):
            raise Refused(where, shown(value), "an object")
        for path, options in value.items():
            bound = self._bounds.get(path)
            if bound is None:
                raise Refused(f"{where}.{path[:64]}", shown(options), f"{SCRATCH} and the image's VOLUMEs")
            match = _TMPFS.fullmatch(options) if isinstance(options, str) else None
            if match is None or int(match[1]) > bound:
                raise Refused(f"{where}.{path[:64]}", shown(options), f"rw,nosuid,nodev,mode=1777,size=1 to {bound}")
        for path in self._bounds:
            if path not in value:
                raise Refused(where, f"nothing at {path}", "a bounded space over each VOLUME of the image")
        return dict(value)


def _over_kernel() -> tuple[str, ...]:
    return tuple(f"{folder}/" for folder in _KERNEL)


class _Gpus(Rule):
    """At most one request, for GPUs that are offered, each by its UUID; `uuids` are those that were asked for."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.uuids: list[str] = []

    def check(self, value: Any, where: str) -> list[dict[str, Any]]:
        if not isinstance(value, list) or len(value) > 1:
            raise Refused(where, shown(value), "at most one request")
        return [self._request(each, f"{where}[{index}]") for index, each in enumerate(value)]

    def _request(self, value: Any, where: str) -> dict[str, Any]:
        driver = value.get("Driver") if isinstance(value, dict) else None
        cdi = driver == "cdi"
        rules: dict[str, Rule] = {
            "Driver": Exactly(["", "nvidia", "cdi"]),
            "Count": Exactly([0]),
            "DeviceIDs": _DeviceIds(self._policy, _CDI_PREFIX if cdi else ""),
            "Capabilities": Exactly([[]]) if cdi else _Capabilities(),
            "Options": Exactly([{}]),
        }
        required = {"DeviceIDs"} if cdi else {"DeviceIDs", "Capabilities"}
        checked: dict[str, Any] = Table(rules, frozenset(required)).check(value, where)
        self.uuids = [each.removeprefix(_CDI_PREFIX) for each in checked["DeviceIDs"]]
        return checked


class _DeviceIds(Rule):
    def __init__(self, policy: Policy, prefix: str) -> None:
        self._policy = policy
        self._prefix = prefix

    def check(self, value: Any, where: str) -> list[str]:
        if not isinstance(value, list) or not value:
            raise Refused(where, shown(value), "a list of UUIDs")
        found = []
        for index, each in enumerate(value):
            if not isinstance(each, str) or not each.startswith(self._prefix):
                raise Refused(f"{where}[{index}]", shown(each), f"{self._prefix}UUID")
            self._policy.gpu_check(each.removeprefix(self._prefix), f"{where}[{index}]")
            found.append(each)
        if len(set(found)) != len(found):
            raise Refused(where, "the same GPU twice", "each GPU once")
        return found


class _Capabilities(Rule):
    def check(self, value: Any, where: str) -> list[list[str]]:
        valid = isinstance(value, list) and len(value) == 1 and isinstance(value[0], list)
        words = value[0] if valid else []
        if not words or not all(isinstance(word, str) and word in _CAPABILITIES for word in words):
            raise Refused(where, shown(value), f"one list out of {', '.join(sorted(_CAPABILITIES))}")
        return [list(words)]
