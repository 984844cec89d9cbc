"""The parts of agent/install.sh that are written from other files: host checks, the two containers, the network rules.

``python -m tests.architecture.installer`` writes them, ``test_installer`` sees that they are current. A key of
agent/compose.yaml that this does not know is an error: nothing that is said there gets lost on the way.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import yaml

from agent_protocol.checks import HOST_CHECKS, AtLeast

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "agent" / "install.sh"
RULES = ROOT / "agent" / "egress.nft"
COMPOSE = ROOT / "agent" / "compose.yaml"
ORDER = "written by: python -m tests.architecture.installer"

PLACEHOLDERS = {
    "${GPUNEX_AGENT_IMAGE}": "$AGENT_IMAGE",
    "${GPUNEX_GUARD_IMAGE}": "$GUARD_IMAGE",
    "${GPUNEX_URL}": "$URL",
    "${GPUNEX_NAME}": "$NAME",
    "${GPUNEX_GPUS}": "$GPUS",
    "${GPUNEX_STATE}": "$STATE_VOLUME",
    "${GPUNEX_JOB_NETWORK}": "$JOB_NETWORK",
}
"""Placeholder of compose.yaml → variable of the script, which checks what is in them (check_words)."""

ENGINE_SOCKET = "/var/run/docker.sock"
PLAIN = {
    "restart": "--restart",
    "user": "--user",
    "network_mode": "--network",
    "mem_limit": "--memory",
    "memswap_limit": "--memory-swap",
    "pids_limit": "--pids-limit",
}
SWITCHES = {"read_only": "--read-only", "init": "--init"}
LISTS = {"cap_drop": "--cap-drop", "security_opt": "--security-opt", "tmpfs": "--tmpfs"}


def written(script: str) -> str:
    """The script with all parts as they should be."""
    parts = {"checks": checks(), "containers": containers(COMPOSE.read_text()), "rules": rules(RULES.read_text())}
    for name, content in parts.items():
        script = _replaced(script, name, content)
    return script


def _replaced(script: str, name: str, content: str) -> str:
    start, end = f"# >>> {name}", f"# <<< {name}"
    head, _, rest = script.partition(start)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"agent/install.sh has no part between '{start}' and '{end}'")
    return f"{head}{start} ({ORDER})\n{content}{end}{tail}"


def checks() -> str:
    lines = ["rule() {", "    case $1 in"]
    for each in HOST_CHECKS:
        kind, limit = ("at_least", each.rule.minimum) if isinstance(each.rule, AtLeast) else ("one_of", "")
        limit = limit or " ".join(each.rule.allowed)  # type: ignore[union-attr]
        lines += [
            f"        {each.id})",
            f"            KIND={kind} LIMIT={shlex.quote(limit)} NEEDED={shlex.quote(each.required)}",
            f"            WHY={shlex.quote(each.purpose)}",
            f"            REMEDY={shlex.quote(each.remedy)}",
            "            ;;",
        ]
    return "\n".join([*lines, "    esac", "}", ""])


def rules(text: str) -> str:
    """The file as it lies there; `jump open` is the line in which the owner's choice goes."""
    if text.count("\n        jump open\n") != 1 or "\nRULES\n" in text:
        raise ValueError("egress.nft: needs one line 'jump open', and none 'RULES'")
    return f"egress_rules() {{\n    sed \"s/^        jump open\\$/        jump $NETWORK/\" <<'RULES'\n{text}RULES\n}}\n"


def containers(compose: str) -> str:
    """One function per service, in the order in which they depend on each other."""
    described = yaml.safe_load(_filled(compose))
    volumes = {name: settings["name"] for name, settings in described.pop("volumes").items()}
    services = described.pop("services")
    described.pop("name")
    _none_left("compose.yaml", described)
    return "\n".join(_function(name, service, volumes) for name, service in services.items())


def _filled(compose: str) -> str:
    for placeholder, variable in PLACEHOLDERS.items():
        compose = compose.replace(placeholder, variable)
    return compose


def _function(name: str, service: dict[str, Any], volumes: dict[str, str]) -> str:
    service.pop("depends_on", None)  # the order of the file
    container, image = service.pop("container_name"), service.pop("image")
    options: list[tuple[str, ...]] = []
    for key, option in PLAIN.items():
        if key in service:
            options.append((option, str(service.pop(key))))
    for key, option in SWITCHES.items():
        if service.pop(key, False):
            options.append((option,))
    for key, option in LISTS.items():
        options += [(option, value) for value in service.pop(key, [])]
    options += [("--env", f"{key}={value}") for key, value in service.pop("environment", {}).items()]
    options += [("--volume", _mount(each, volumes)) for each in service.pop("volumes", [])]
    options += _devices(service.pop("deploy", None))
    logging = service.pop("logging")
    options.append(("--log-driver", logging["driver"]))
    options += [("--log-opt", f"{key}={value}") for key, value in logging["options"].items()]
    command = service.pop("command", [])
    _none_left(name, service)
    lines = [" ".join(_word(word) for word in option) for option in options]
    lines.append(" ".join(_word(word) for word in (image, *command)))
    body = " \\\n        ".join([f"    start {container}", *lines])
    return f"start_{name}() {{\n{body}\n}}\n"


def _mount(mount: str, volumes: dict[str, str]) -> str:
    source, _, rest = mount.partition(":")
    if source == ENGINE_SOCKET:
        return f"$ENGINE_SOCKET:{rest}"
    return f"{volumes[source]}:{rest}"


def _devices(deploy: dict[str, Any] | None) -> list[tuple[str, ...]]:
    """The cards: the script's gpu_request says the same for `docker run --gpus`."""
    if deploy is None:
        return []
    (device,) = deploy["resources"]["reservations"]["devices"]
    if device != {"driver": "nvidia", "device_ids": ["$GPUS"], "capabilities": ["gpu", "utility"]}:
        raise ValueError(f"compose.yaml: gpu_request of agent/install.sh does not say {device}")
    return [("--gpus", "$(gpu_request)")]


def _word(word: str) -> str:
    """Quoted for the shell where it has to be; our variables stay variables."""
    if "$" in word:
        if set(word) & set('"`\\'):
            raise ValueError(f"compose.yaml: cannot write {word} into the script")
        return f'"{word}"'
    return shlex.quote(word)


def _none_left(where: str, described: dict[str, Any]) -> None:
    if described:
        raise ValueError(f"compose.yaml: {where} says {sorted(described)}, which the installer cannot pass on")


if __name__ == "__main__":
    SCRIPT.write_text(written(SCRIPT.read_text()))
