"""What may be asked for: every wrong field is named, with what was found and what is allowed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from core.errors import Invalid
from marketplace import jobspec
from tests.factories.marketplace import spec


def test_a_plain_job_is_accepted_and_its_image_written_in_full() -> None:
    assert jobspec.check(spec(image="busybox")).image == "docker.io/library/busybox:latest"
    digest = "sha256:" + "a" * 64
    assert jobspec.check(spec(image=f"ghcr.io/x/y@{digest}")).image == f"ghcr.io/x/y@{digest}"


@pytest.mark.parametrize(
    "image",
    [
        "",
        "UPPER/case",
        "localhost/x",
        "localhost:5000/x",
        "10.0.0.1/x",
        "[::1]/x",
        "registry.example.com/x",
        "docker.io:443/library/x",
        "docker.io/x@sha256:abc",
        "a" * 600,
        "x y",
        "x:tag with space",
    ],
)
def test_a_bad_image_is_refused_by_name(image: str) -> None:
    with pytest.raises(Invalid) as refusal:
        jobspec.check(spec(image=image))
    assert list(refusal.value.fields) == ["image"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"command": ("x",) * 257}, "command"),
        ({"command": ("a\x00b",)}, "command"),
        ({"command": ("x" * 32_000,) * 9}, "command"),
        ({"environment": {"1BAD": "x"}}, "environment"),
        ({"environment": {"LD_PRELOAD": "x"}}, "environment"),
        ({"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "environment"),
        ({"secrets": {"CUDA_VISIBLE_DEVICES": "0"}}, "secrets"),
        ({"environment": {"A": "1"}, "secrets": {"A": "2"}}, "secrets"),
        ({"environment": {f"K{n}": "" for n in range(257)}}, "environment"),
        ({"registry_username": "ravi"}, "registry_password"),
        ({"registry_password": "hunter2"}, "registry_username"),
        ({"registry_username": "r" * 256, "registry_password": "hunter2"}, "registry_username"),
        ({"registry_username": "ravi:x", "registry_password": "hunter2"}, "registry_username"),
        ({"registry_username": "ravi\r\n", "registry_password": "hunter2"}, "registry_username"),
        ({"registry_username": "ravi", "registry_password": "hunter2" * 300}, "registry_password"),
        ({"registry_username": "ravi", "registry_password": "hunter2\u00e9"}, "registry_password"),
        ({"registry_username": "ravi", "registry_password": "hunter2\x00"}, "registry_password"),
        ({"gpu_count": 0}, "gpu_count"),
        ({"gpu_count": 33}, "gpu_count"),
        ({"disk_gb": 0}, "disk_gb"),
        ({"time_limit_s": 59}, "time_limit_s"),
        ({"time_limit_s": 30 * 86_400 + 1}, "time_limit_s"),
        ({"disconnect_grace_s": 299}, "disconnect_grace_s"),
        ({"max_attempts": 4}, "max_attempts"),
        ({"max_rate_micro": None}, "max_rate"),
        ({"max_rate_micro": 0}, "max_rate"),
        ({"min_reliability": Decimal(101)}, "min_reliability"),
        ({"listing_id": uuid4(), "region": "oceania"}, "listing"),
        ({"name": "x" * 81}, "name"),
        ({"name": "line\nbreak"}, "name"),
    ],
)
def test_each_limit_names_its_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        jobspec.check(spec(**options))
    assert list(refusal.value.fields) == [field]
    assert "allowed" in refusal.value.fields[field][0]
    assert "hunter2" not in str(refusal.value)


def test_a_login_is_in_no_repr() -> None:
    asked = jobspec.check(spec(registry_username="robot$ravi+ci", registry_password="hunter2"))
    assert (asked.registry_username, asked.registry_password) == ("robot$ravi+ci", "hunter2")
    assert "hunter2" not in repr(asked)


def test_all_wrong_fields_are_told_at_once() -> None:
    with pytest.raises(Invalid) as refusal:
        jobspec.check(spec(image="10.0.0.1/x", gpu_count=0, disk_gb=0))
    assert set(refusal.value.fields) == {"image", "gpu_count", "disk_gb"}
