"""The body of `POST /containers/create`: one sandboxed job."""

import re
from typing import Any

from agent.confinement import (
    GUARD_MARK,
    LABEL_ATTEMPT,
    LABEL_GUARD,
    LABEL_JOB,
    LABEL_LOG_LIMIT,
    LABEL_MACHINE,
    UNPRIVILEGED_USER,
    WORKSPACE,
    gpu_environment,
    image_steering,
    is_steering,
)
from agent.guard.errors import Refused, shown
from agent.guard.fields import Exactly, Matching, Rule, Table, Words
from agent.guard.hostconfig import host_config_check
from agent.guard.policy import Policy

# The platform's own bounds (agent_protocol.messages.plan), and room for what the sandbox adds.
_MAX_WORDS = 512
_MAX_WORD = 40_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,255}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NUMBER = re.compile(r"[0-9]{1,15}")
_DIGEST_NAME = re.compile(r"[a-z0-9][a-z0-9._:/-]{0,400}@sha256:[0-9a-f]{64}")
_FREE_DRIVER_WORDS = frozenset({"compute", "utility", "video", "graphics"})
_REQUIRED = "User Env Image WorkingDir HostConfig Labels Healthcheck"


def labels_rule() -> Rule:
    """Exactly the agent's four; the guard adds its own."""
    rules: dict[str, Rule] = {
        LABEL_JOB: Matching(_UUID, "a UUID"),
        LABEL_ATTEMPT: Matching(_UUID, "a UUID"),
        LABEL_MACHINE: Matching(_MACHINE, "a machine's id"),
        LABEL_LOG_LIMIT: Matching(_NUMBER, "a number of bytes"),
    }
    return Table(rules, frozenset(rules))


def image_name_check(body: dict[str, Any], policy: Policy) -> str:
    """The full name of a create request's image: by digest, from a registry that is allowed. Raises Refused."""
    image = Matching(_DIGEST_NAME, "registry/name@sha256:…").check(body.get("Image"), "Image")
    return policy.image(image, "Image").pull_reference


def container_check(body: dict[str, Any], *, name: str, image: dict[str, Any], policy: Policy) -> dict[str, Any]:
    """The body to pass on. `image` is the engine's own description of it. Raises Refused."""
    config = image.get("Config") or {}
    host_config = _HostConfig(name, sorted(config.get("Volumes") or {}), policy)
    rules: dict[str, Rule] = {
        "User": Exactly([UNPRIVILEGED_USER]),
        "Tty": Exactly([False]),
        "OpenStdin": Exactly([False]),
        "StdinOnce": Exactly([False]),
        "AttachStdin": Exactly([False]),
        "AttachStdout": Exactly([True, False]),
        "AttachStderr": Exactly([True, False]),
        "NetworkDisabled": Exactly([False]),
        "Env": Words(_MAX_WORDS, _MAX_WORD),
        "Cmd": Words(_MAX_WORDS, _MAX_WORD),
        "Image": Exactly([body.get("Image")]),
        "WorkingDir": Exactly([WORKSPACE]),
        "Labels": labels_rule(),
        # An image's own check would run beside the job, and its events would push others out of the engine's memory.
        "Healthcheck": Table({each: _NO_CHECK if each == "Test" else _NOTHING for each in _HEALTHCHECK}, _TEST),
        "HostConfig": host_config,
    }
    checked: dict[str, Any] = Table(rules, frozenset(_REQUIRED.split())).check(body, "")
    environment_check(checked["Env"], image_environment=config.get("Env") or [], gpu_uuids=host_config.gpu_uuids)
    # Programs on the host that look for labels (proxies, updaters) must not listen to an image.
    emptied = dict.fromkeys(config.get("Labels") or {}, "")
    checked["Labels"] = emptied | checked["Labels"] | {LABEL_GUARD: GUARD_MARK}
    return checked


class _HostConfig(Rule):
    def __init__(self, name: str, image_volumes: list[str], policy: Policy) -> None:
        self._name, self._volumes, self._policy = name, image_volumes, policy
        self.gpu_uuids: list[str] = []

    def check(self, value: Any, where: str) -> dict[str, Any]:
        checked, self.gpu_uuids = host_config_check(
            value, name=self._name, image_volumes=self._volumes, policy=self._policy
        )
        return checked


_NO_CHECK = Exactly([["NONE"]])
_NOTHING = Exactly([0])
_HEALTHCHECK = ("Test", "Interval", "Timeout", "Retries", "StartPeriod", "StartInterval")
_TEST = frozenset({"Test"})


def environment_check(environment: list[str], *, image_environment: list[str], gpu_uuids: list[str]) -> None:
    """Loader and GPU injection hear only the sandbox; values are never shown. Raises Refused."""
    found: dict[str, str] = {}
    for entry in environment:
        name, equals, value = entry.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            raise Refused("Env", "an entry that sets no variable", "NAME=value")
        if name in found:
            raise Refused(f"Env.{name}", "it twice", "each variable once")
        found[name] = value
    wanted = gpu_environment(gpu_uuids)
    for name, value in wanted.items():
        if name == "NVIDIA_DRIVER_CAPABILITIES":
            if not set(found.get(name, "").split(",")) <= _FREE_DRIVER_WORDS:
                raise Refused(f"Env.{name}", "something else", ", ".join(sorted(_FREE_DRIVER_WORDS)))
        elif found.get(name) != value:
            raise Refused(f"Env.{name}", shown(found.get(name)), shown(value))
    for name, value in found.items():
        if is_steering(name) and name not in wanted and value:
            raise Refused(f"Env.{name}", "a value", "an empty one")
    for name in image_steering(image_environment):
        if name not in found:
            raise Refused("Env", f"no {name}, which the image sets", f"{name}= to switch it off")
