"""The shared tables: failure reasons, host checks, image names, versions."""

import pytest

from agent_protocol.checks import (
    HOST_CHECKS,
    MINIMUM_TOOLKIT_VERSION,
    TOOLKIT_FIXES,
    AtLeast,
    CheckStatus,
    HostFacts,
    evaluate,
)
from agent_protocol.images import ImageRefused, image_parse
from agent_protocol.reasons import REASONS, STOP_REASONS, Owner, reason_get
from agent_protocol.version import version_at_least, version_tuple

GOOD = HostFacts(
    system="Linux",
    architecture="x86_64",
    is_wsl=False,
    privileged=True,
    engine="docker",
    engine_running=True,
    engine_version="27.3.1",
    disk_free_gb=30,
    packet_filter=True,
    driver_version="550.54.14",
    gpu_count=1,
    toolkit_version="1.18.2",
    gpu_in_container=True,
)


def test_only_the_provider_is_scored_for_a_failure_and_only_his_is_credited() -> None:
    for reason in REASONS.values():
        failed = reason.code != "completed"
        if failed:
            assert reason.scored == (reason.owner is Owner.PROVIDER), reason
            assert reason.credited == (reason.owner is Owner.PROVIDER), reason
            assert reason.retried == (reason.owner is not Owner.CUSTOMER), reason
        assert reason.sentence.endswith(".")


def test_an_unknown_code_is_nobodys_fault() -> None:
    assert reason_get("made_up").owner is Owner.UNKNOWN
    assert set(STOP_REASONS) <= set(REASONS)


def test_a_good_host_passes_every_check() -> None:
    assert {result.status for result in evaluate(GOOD)} == {CheckStatus.PASSED}


@pytest.mark.parametrize(
    ("fact", "value", "failing"),
    [
        ("system", "Darwin", "operating_system"),
        ("architecture", "aarch64", "architecture"),
        ("is_wsl", True, "not_wsl"),
        ("privileged", False, "privileges"),
        ("engine", "podman", "engine"),
        ("engine", "docker-rootless", "engine"),
        ("engine", "docker-desktop", "engine"),
        ("disk_free_gb", 29, "disk_free"),
        ("packet_filter", False, "packet_filter"),
        ("gpu_count", 0, "gpu_count"),
        ("engine_running", False, "engine_running"),
        ("engine_version", "20.10.24+dfsg1", "engine_version"),
        ("driver_version", "535.183.01", "driver_version"),
        ("toolkit_version", "1.17.8", "toolkit_version"),
        ("gpu_in_container", False, "gpu_in_container"),
    ],
)
def test_a_bad_fact_fails_exactly_its_check(fact: str, value: object, failing: str) -> None:
    results = evaluate(HostFacts(**{**GOOD.__dict__, fact: value}))
    assert [result.id for result in results if result.status is CheckStatus.FAILED] == [failing]
    found = next(result for result in results if result.id == failing)
    assert found.actual and found.required and found.purpose and found.remedy


def test_what_could_not_be_found_out_is_unknown_not_failed() -> None:
    assert {result.status for result in evaluate(HostFacts())} == {CheckStatus.UNKNOWN}
    assert len({check.id for check in HOST_CHECKS}) == len(HOST_CHECKS)


def test_what_is_told_is_what_is_asked_for() -> None:
    for check in HOST_CHECKS:
        if isinstance(check.rule, AtLeast):
            assert check.required.startswith(f"{check.rule.minimum} "), check.id
    toolkit = next(check for check in HOST_CHECKS if check.id == "toolkit_version")
    assert all(cve in toolkit.purpose for cve in TOOLKIT_FIXES)


def test_the_toolkit_floor_covers_every_known_escape() -> None:
    assert all(version_at_least(MINIMUM_TOOLKIT_VERSION, fixed) for fixed in TOOLKIT_FIXES.values())


@pytest.mark.parametrize(
    ("version", "minimum", "enough"),
    [
        ("24.0.7", "24.0", True),
        ("24", "24.0.0", True),
        ("9.9", "10.0", False),
        ("27.0~rc1", "27.0", True),
        ("v1.18.2", "1.18.2", True),
        ("garbage", "0", False),
        ("", "1", False),
        ("²", "1", False),
    ],
)
def test_versions_compare_by_number(version: str, minimum: str, enough: bool) -> None:
    assert version_at_least(version, minimum) is enough


def test_a_version_of_absurd_length_is_cut() -> None:
    assert version_tuple("9" * 5000) == (999_999_999,)


@pytest.mark.parametrize(
    ("image", "pulled"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.11", "docker.io/library/python:3.11"),
        ("pytorch/pytorch:2.4", "docker.io/pytorch/pytorch:2.4"),
        ("nvcr.io/nvidia/cuda:12.4.0-base-ubuntu22.04", "nvcr.io/nvidia/cuda:12.4.0-base-ubuntu22.04"),
        ("index.docker.io/library/python", "docker.io/library/python:latest"),
        ("ghcr.io/a/b@sha256:" + "a" * 64, "ghcr.io/a/b@sha256:" + "a" * 64),
        ("ghcr.io/a/b:1@sha256:" + "a" * 64, "ghcr.io/a/b@sha256:" + "a" * 64),
    ],
)
def test_an_image_is_read_as_docker_reads_it(image: str, pulled: str) -> None:
    assert image_parse(image).pull_reference == pulled


@pytest.mark.parametrize(
    ("image", "code"),
    [
        ("", "malformed"),
        ("UPPER", "malformed"),
        ("a b", "malformed"),
        ("python:", "malformed"),
        ("python@sha256:short", "malformed"),
        ("python:3.11\n", "malformed"),
        ("../etc", "registry_address"),
        ("localhost/x", "registry_address"),
        ("localhost:5000/x", "registry_address"),
        ("127.0.0.1/x", "registry_address"),
        ("0x7f.0x0.0x0.0x1/x", "registry_address"),
        ("[::1]:5000/x", "registry_address"),
        ("registry:5000/x", "registry_address"),
        ("ghcr.io:443/a/b", "registry_address"),
        ("Docker.io/x", "registry_address"),
        ("registry.internal.example/x", "registry_not_allowed"),
        ("metadata.google.internal/x", "registry_not_allowed"),
    ],
)
def test_an_image_from_elsewhere_is_refused(image: str, code: str) -> None:
    with pytest.raises(ImageRefused) as caught:
        image_parse(image)
    assert caught.value.code == code


def test_an_operator_may_add_a_registry() -> None:
    own = frozenset({"registry.example.com:5000"})
    assert image_parse("registry.example.com:5000/a", allowed_registries=own).repository == "a"
