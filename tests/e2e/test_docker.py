"""bin/start --docker: the demo's jobs run in containers of this machine's engine, which needs no GPUs for simulated ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpunex.embedded import free_port
from tests.agent.docker_engine import DockerEngine
from tests.agent.registry import FakeRegistry
from tests.e2e.market import GatedJob, Market, seen_from_inside
from tests.e2e.running import Started, data_folder, left_running

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("running")]

IMAGE = "busybox:1"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    found = FakeRegistry()
    yield found
    found.close()


@pytest.fixture
def engine(registry: FakeRegistry) -> Iterator[DockerEngine]:
    found = DockerEngine(gpus=False, mirror=f"http://{registry.name}")
    try:
        yield found.start()
    finally:
        found.close()


def test_a_job_runs_in_a_container(engine: DockerEngine, registry: FakeRegistry, django_db_blocker: Any) -> None:
    client = engine.client()
    with data_folder() as folder:
        started = Started(folder, free_port(), "--docker", DOCKER_HOST=engine.address)
        try:
            started.wait_until_ready()
            with seen_from_inside(started, django_db_blocker):
                market = Market(started)
                market.newcomer_pays_in()
                before = market.balance()
                job_id = market.submit(
                    "id -u; until [ -e /tmp/gate ]; do sleep 0.2; done; sleep 3; echo done", image=IMAGE
                )
                market.wait_for_line(job_id, "65534")
                (container,) = client.containers.list()
                assert container.name == f"gpunex-job-{job_id}-1"
                assert container.attrs["Config"]["Image"].endswith(f"@{registry.digest}")
                assert container.exec_run(["touch", "/tmp/gate"]).exit_code == 0
                assert market.ended(job_id)["status"] == "succeeded"
                market.wait_for_line(job_id, "done")
                assert market.log_of(job_id) == ["65534", "done"]
                market.charged_once(before, GatedJob(job_id, folder))
                left_behind = market.submit("echo begun; sleep 3600", image=IMAGE)
                market.wait_for_line(left_behind, "begun")
                assert len(client.containers.list()) == 1
        finally:
            started.stop()
        assert client.containers.list() == []
        assert left_running(folder) == []
    client.close()
