"""Loaded before the settings (``-p tests.plugin``): starts the tests' services and sets the environment they need."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

from tests import services as test_services

_server: subprocess.Popen[str] | None = None


def _load() -> test_services.Services:
    """The controller starts the services; xdist workers inherit their description through the environment."""
    global _server
    given = os.environ.get("GPUNEX_TEST_SERVICES")
    if given is None:
        found, _server = test_services.start()
        described = asdict(found) | {"folder": str(found.folder)}
        os.environ["GPUNEX_TEST_SERVICES"] = json.dumps(described)
        return found
    described = json.loads(given)
    return test_services.Services(**(described | {"folder": Path(described["folder"])}))


SERVICES = _load()
# One numbered Valkey database per xdist worker (16 exist), so that they do not hear each other.
_number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16
SERVICES = replace(SERVICES, redis_url=SERVICES.redis_url.rpartition("/")[0] + f"/{_number}")
os.environ.update(test_services.environment(SERVICES))


def pytest_sessionfinish() -> None:
    if _server is not None:
        _server.terminate()
        _server.wait(60)
        os.environ.pop("GPUNEX_TEST_SERVICES", None)
