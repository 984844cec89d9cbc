"""What of the engine's answers the agent gets to see: what is ours, and of the host only what it reports anyway."""

import json
import re
from typing import Any

from agent.confinement import GUARD_COMPONENT, GUARD_MARK, JOB_NAME, LABEL_GUARD
from agent.guard.errors import EngineAway, Refused
from agent.guard.strict import json_write

_INFO = (
    "ServerVersion",
    "OperatingSystem",
    "OSType",
    "Architecture",
    "KernelVersion",
    "LiveRestoreEnabled",
    "SecurityOptions",
    "NCPU",
    "MemTotal",
)
_VERSION = ("Version", "ApiVersion", "MinAPIVersion", "Os", "Arch", "KernelVersion")
_LABEL = re.compile(r"gpunex\.[a-z_]{1,32}=[A-Za-z0-9._-]{0,128}")
_MINE = f"{LABEL_GUARD}={GUARD_MARK}"
# Somebody else's event: that there was one says how much the engine still remembers, and nothing more.
_ELSEWHERE = b'{"Type":"elsewhere"}\n'


def is_ours(labels: Any, name: str) -> bool:
    """The mark and the name: a mark alone could come with a stranger's image."""
    marked = isinstance(labels, dict) and labels.get(LABEL_GUARD) == GUARD_MARK
    return marked and JOB_NAME.fullmatch(name) is not None


def version(answer: dict[str, Any], newest: int) -> dict[str, Any]:
    """With an API version that the guard knows, and the guard as one of the components."""
    found = {name: answer[name] for name in _VERSION if name in answer}
    major, _, minor = str(found.get("ApiVersion", "")).partition(".")
    if major != "1" or not minor.isdigit():
        raise EngineAway("it names no API version")
    found["ApiVersion"] = f"1.{min(int(minor), newest)}"
    components = [
        {"Name": str(part.get("Name", "")), "Version": str(part.get("Version", ""))}
        for part in answer.get("Components") or ()
    ]
    return found | {"Components": [*components, {"Name": GUARD_COMPONENT, "Version": "1"}]}


def info(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in _INFO if name in answer}


def image(answer: dict[str, Any]) -> dict[str, Any]:
    """What the sandbox overrides, the names by digest, and how much room it takes."""
    config = answer.get("Config") or {}
    kept = {name: config.get(name) for name in ("Env", "Volumes")}
    digests = answer.get("RepoDigests") or []
    return {"Id": answer.get("Id"), "RepoDigests": digests, "Size": answer.get("Size"), "Config": kept}


def label_filters(filters: dict[str, Any]) -> list[str]:
    """The labels to list by, ours always among them. Raises Refused."""
    labels = filters.get("label") or []
    if set(filters) - {"label"}:
        raise Refused("query.filters", "others", "label")
    if not isinstance(labels, list) or not all(isinstance(each, str) and _LABEL.fullmatch(each) for each in labels):
        raise Refused("query.filters.label", "something else", "a list of gpunex.…=…")
    return [_MINE, *labels]


def containers(answer: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        each
        for each in answer
        if any(is_ours(each.get("Labels"), str(name).lstrip("/")) for name in each.get("Names") or ())
    ]


def name_of(row: dict[str, Any]) -> str:
    """Of a container, a volume or a network in a list."""
    names = row.get("Names") or [row.get("Name")]
    return str(names[0]).lstrip("/")


def owned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Volumes or networks that are ours: names and labels."""
    return [
        {"Name": row["Name"], "Labels": row["Labels"]}
        for row in rows
        if is_ours(row.get("Labels"), str(row.get("Name")))
    ]


def disk_usage(answer: dict[str, Any]) -> dict[str, Any]:
    volumes = [
        {"Name": each["Name"], "UsageData": each.get("UsageData")}
        for each in answer.get("Volumes") or ()
        if is_ours(each.get("Labels"), str(each.get("Name")))
    ]
    return {"Volumes": volumes}


def events(body: bytes) -> bytes:
    """One object per line, as the engine writes them."""
    kept = []
    for line in body.splitlines():
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError:
            raise EngineAway("its events are no JSON") from None
        actor = event.get("Actor") or {}
        attributes = actor.get("Attributes") or {}
        ours = event.get("Type") == "container" and is_ours(attributes, str(attributes.get("name")))
        kept.append(json_write(event) + b"\n" if ours else _ELSEWHERE)
    return b"".join(kept)
