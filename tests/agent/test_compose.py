"""The services on a provider's host, as the installer will fill them in: who holds what."""

import re
from typing import Any

import pytest
import yaml

from tests.agent.host import ROOT

TEMPLATE = (ROOT / "agent" / "compose.yaml").read_text()
ENGINE_SOCKET = "/var/run/docker.sock"
PLACEHOLDERS = {
    "GPUNEX_AGENT_IMAGE": "registry.example/agent@sha256:" + "a" * 64,
    "GPUNEX_GUARD_IMAGE": "registry.example/guard@sha256:" + "b" * 64,
    "GPUNEX_URL": "https://gpunex.example",
    "GPUNEX_NAME": "123",
    "GPUNEX_GPUS": "GPU-a,GPU-b",
    "GPUNEX_STATE": "gpunex-agent-state",
    "GPUNEX_JOB_NETWORK": "none",
}


def filled(**changes: str) -> dict[str, Any]:
    text = TEMPLATE
    for name, value in {**PLACEHOLDERS, **changes}.items():
        text = text.replace(f"${{{name}}}", value)
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    return services


def test_every_placeholder_is_known() -> None:
    assert set(re.findall(r"\$\{?(\w+)\}?", TEMPLATE)) == set(PLACEHOLDERS)


def test_only_the_guard_holds_the_engines_socket_and_it_has_no_network() -> None:
    services = filled()
    holders = [name for name, service in services.items() if ENGINE_SOCKET in str(service)]
    assert holders == ["guard"]
    assert services["guard"]["network_mode"] == "none"
    assert not any(volume.startswith(("/", ".")) for volume in services["agent"]["volumes"])


@pytest.mark.parametrize("name", ["agent", "guard"])
def test_both_are_confined_and_come_back(name: str) -> None:
    service = filled()[name]
    assert service["restart"] == "always"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"] == service["memswap_limit"]
    assert "@sha256:" in service["image"]
    assert not {"privileged", "cap_add", "devices", "ports", "pid", "ipc", "userns_mode"} & set(service)
    assert all(isinstance(word, str) for word in service["command"])


@pytest.mark.parametrize(("gpus", "ids"), [("all", ["all"]), ("GPU-a", ["GPU-a"]), ("GPU-a,GPU-b", ["GPU-a", "GPU-b"])])
def test_the_agent_sees_the_offered_cards_and_cannot_compute_on_them(gpus: str, ids: list[str]) -> None:
    services = filled(GPUNEX_GPUS=gpus)
    (device,) = services["agent"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "device_ids": ids, "capabilities": ["gpu", "utility"]}
    for service in services.values():
        command = service["command"]
        assert command[command.index("--gpus") + 1] == gpus
    assert "deploy" not in services["guard"]


def test_the_guard_lets_the_agents_own_image_look_at_the_network() -> None:
    services = filled(GPUNEX_AGENT_IMAGE="own.example/agent@sha256:" + "a" * 64)
    for name, option in (("guard", "--allow-image"), ("agent", "--egress-image")):
        command = services[name]["command"]
        assert command[command.index(option) + 1] == services["agent"]["image"]


def test_the_agents_image_is_of_the_group_that_may_use_the_guards_socket() -> None:
    user, group = filled()["guard"]["user"].split(":")
    dockerfile = (ROOT / "agent" / "Dockerfile").read_text()
    assert user == "0"
    assert f"groupadd --gid {group} " in dockerfile and f"--gid {group} --no-log-init" in dockerfile
    assert f"\nUSER {group}:{group}\n" in dockerfile
