"""Bodies of `POST /volumes/create` and `POST /networks/create`: a job's workspace and its own bridge."""

import re
from typing import Any

from agent.confinement import GUARD_MARK, JOB_NAME, LABEL_GUARD, bridge_name
from agent.guard.containers import labels_rule
from agent.guard.errors import Refused
from agent.guard.fields import Exactly, Matching, Table

_NAME = Matching(JOB_NAME, "gpunex-job-<job>-<number>")
_SIZE = Matching(re.compile(r"[1-9][0-9]{0,17}"), "a number of bytes")
_VOLUME = Table(
    {
        "Name": _NAME,
        "Driver": Exactly(["local"]),
        # With `type`, `o` and `device` the local driver mounts whatever it is told.
        "DriverOpts": Table({"size": _SIZE}),
        "Labels": labels_rule(),
    },
    frozenset({"Name", "Driver", "Labels"}),
)


def volume_check(body: dict[str, Any]) -> dict[str, Any]:
    """The body to pass on. Raises Refused."""
    return _marked(_VOLUME.check(body, ""))


def network_check(body: dict[str, Any], *, networks: bool) -> dict[str, Any]:
    """The body to pass on. Raises Refused."""
    if not networks:
        raise Refused("network", "a network", "none: this machine was set up without egress rules")
    name = str(_NAME.check(body.get("Name"), "Name"))
    options = {
        "com.docker.network.bridge.enable_icc": Exactly(["false"]),
        "com.docker.network.bridge.name": Exactly([bridge_name(name)]),
    }
    rule = Table(
        {
            "Name": _NAME,
            "Driver": Exactly(["bridge"]),
            "CheckDuplicate": Exactly([True]),
            "Internal": Exactly([True, False]),
            "EnableIPv6": Exactly([False]),
            "Options": Table(options, frozenset(options)),
            "Labels": labels_rule(),
        },
        frozenset({"Name", "Driver", "Options", "Labels"}),
    )
    return _marked(rule.check(body, "")) | {"CheckDuplicate": True}


def _marked(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"Labels": body["Labels"] | {LABEL_GUARD: GUARD_MARK}}
