"""Real processes of a running marketplace are killed, stopped and cut off: nothing is lost, nothing is counted twice.

It runs with ``--docker``: jobs of Ada's hosts are containers of a real engine, which needs no GPUs for simulated ones.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import redis

from core.invariants import check_all
from gpunex.embedded import free_port
from marketplace.models import Attempt
from marketplace.states import PARTITION_MARGIN_SECONDS
from providers.models import GpuClaim, Machine
from reliability.models import Flip, Incident, MachineHealth, OnlineInterval
from reliability.states import OFFLINE_SECONDS
from tests.agent.docker_engine import DockerEngine
from tests.agent.registry import FakeRegistry
from tests.e2e.market import (
    ADAS_L4,
    ELSEWHERE,
    STEP_SECONDS,
    ContainerJob,
    GatedJob,
    Market,
    seen_from_inside,
    wait,
)
from tests.e2e.running import Started, children, data_folder, left_running

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("running")]

GRACE_SECONDS = 300


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    found = FakeRegistry()
    yield found
    found.close()


@pytest.fixture(scope="module")
def engine(registry: FakeRegistry) -> Iterator[DockerEngine]:
    found = DockerEngine(gpus=False, mirror=f"http://{registry.name}")
    try:
        yield found.start()
    finally:
        found.close()


@pytest.fixture(scope="module")
def market(engine: DockerEngine, django_db_blocker: Any) -> Iterator[Market]:
    client = engine.client()
    with data_folder() as folder:
        clock = folder.parent / "clock"
        time = {"CLOCK": "core.clock.FileClock", "CLOCK_FILE": str(clock)}
        started = Started(folder, free_port(), "--docker", DOCKER_HOST=engine.address, **time)
        try:
            started.wait_until_ready()
            with seen_from_inside(started, django_db_blocker):
                found = Market(started, clock, client)
                found.newcomer_pays_in()
                for where in (ADAS_L4, ELSEWHERE):
                    # Its benchmark needs the worker, which a test may freeze.
                    wait(lambda where=where: found.listing(*where), f"{where} is in the market")  # type: ignore[misc]
                yield found
                found.gated()
                assert len(client.containers.list()) == 1
        finally:
            started.stop()
        # The demo's jobs end with it, containers too.
        assert client.containers.list() == []
        assert left_running(folder) == []
    client.close()


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """They are there and do nothing, as on a machine that hangs."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_job_runs_in_a_container(market: Market, registry: FakeRegistry) -> None:
    before = market.balance()
    job = market.gated()
    container = _container(job)
    assert container.attrs["Config"]["Image"].endswith(f"@{registry.digest}")
    assert container.exec_run(["id", "-u"]).output.decode().strip() == "65534"
    job.open()
    market.succeeded(job)
    market.charged_once(before, job)


def _container(job: GatedJob) -> Any:
    assert isinstance(job, ContainerJob)
    return job.container


def test_valkey_is_killed_in_the_middle_of_a_job(market: Market) -> None:
    """It held the queue, last-seen times and the bells. The running job goes on; the one whose message it had is found."""
    before, marks = market.balance(), _marks()
    online = list(OnlineInterval.objects.filter(ended_at__isnull=True).values_list("pk", flat=True))
    running = market.gated()
    # Nobody takes messages from the queue: what is sent now is in Valkey alone, and dies with it.
    worker = market.started.child("celery", "worker")
    with frozen(worker, *children(worker)):
        for _ in range(2):  # the first may still be handed to a worker that was waiting
            market.jobs.send_task("marketplace.jobs_place", queue="default")
        lying = market.valkey.llen("default")
        waiting = market.gated(ELSEWHERE, wait_for_begin=False)
        assert market.valkey.llen("default") > lying > 0
        market.valkey.set("what it held", "1")
        os.kill(market.started.child("valkey-server"), signal.SIGKILL)
        wait(lambda: _answers(market), "Valkey is started again")
        assert not market.valkey.exists("what it held")
    market.wait_for_line(waiting.id, market.LOG[0])
    for job in (running, waiting):
        job.open()
    market.succeeded(running, waiting)
    market.charged_once(before, running, waiting)
    # The sweeps look again, and miss nobody: no score lost a point.
    market.step()
    assert _marks() == marks
    assert not OnlineInterval.objects.filter(pk__in=online, ended_at__isnull=False).exists()


def _answers(market: Market) -> bool:
    try:
        return "Valkey: ended" in market.started.said and bool(market.valkey.ping())
    except redis.RedisError:
        return False


def _marks() -> tuple[int, int]:
    """What takes points from a score: how often somebody was called offline, and what broke."""
    return Flip.objects.filter(to="offline").count(), Incident.objects.count()


def test_the_agent_is_killed_during_a_job(market: Market) -> None:
    """The supervisor starts it again; it adopts the job, sends what the log lacks, and reports one end."""
    before, incidents = market.balance(), Incident.objects.count()
    job = market.gated()
    process = _process(job)
    os.kill(market.started.child("--name ada-2"), signal.SIGKILL)
    log = market.folder / "logs" / "host-ada-2.log"
    wait(lambda: _adopted(log.read_text(), job), "the next agent adopts the job")
    assert _process(job) == process
    job.open()
    market.succeeded(job)
    market.charged_once(before, job)
    assert Incident.objects.count() == incidents


def _process(job: GatedJob) -> tuple[str, int, str]:
    """The container, the number of its process and when that began."""
    container = _container(job)
    return container.id, container.attrs["State"]["Pid"], container.attrs["State"]["StartedAt"]


def _adopted(log: str, job: GatedJob) -> bool:
    return any("adopted" in line and job.id in line for line in log.splitlines())


def test_a_web_worker_is_killed_during_a_job(market: Market) -> None:
    """The server replaces it; agents and people come back, and what was in its memory is read anew."""
    before = market.balance()
    job = market.gated()
    server = market.started.child("granian", "gpunex.wsgi:application")
    killed = set(children(server))
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    fresh = wait(lambda: set(children(server)) - killed, "the server has another worker")
    job.open()
    market.succeeded(job)
    assert fresh <= set(children(server))
    market.charged_once(before, job)


def test_a_host_disappears(market: Market) -> None:
    """Offline 90 s after its last heartbeat, and nobody else; its job is lost after the grace, charged as far as confirmed."""
    before = market.balance()
    job = market.gated(disconnect_grace_s=GRACE_SECONDS)
    attempt = wait(lambda: Attempt.objects.filter(job=job.id, status="running").first(), "the job runs")
    host = attempt.machine
    market.until(lambda: (_fresh(attempt).confirmed_elapsed_s or 0) > 0)
    flips = Flip.objects.exclude(machine=host).filter(to="offline").count()
    with frozen(market.started.child(f"--name {host.name}")):
        _is_called_offline(market, host)
        assert market.job(job.id)["status"] == "active"
        assert market.balance()["held_micro"] > 0
        market.until(lambda: market.job(job.id)["status"] == "lost", without=host)
    attempt = _fresh(attempt)
    assert (attempt.job.reason, attempt.reason) == ("offline", "offline")
    patience = timedelta(seconds=GRACE_SECONDS + PARTITION_MARGIN_SECONDS)
    assert timedelta() <= attempt.ended_at - (attempt.confirmed_at + patience) < timedelta(seconds=2 * STEP_SECONDS)
    assert not GpuClaim.objects.filter(holder=attempt.pk, live=True).exists()

    wait(lambda: market.balance()["held_micro"] == 0, "its rental is settled")
    (told,) = market.job(job.id)["attempts"]
    assert told["billed_seconds"] == attempt.confirmed_elapsed_s
    assert told["charged_micro"] == told["rate_micro"] * told["billed_seconds"] // 3600 > 0
    assert told["credited_micro"] == told["charged_micro"]  # the provider's fault: the last hours are given back
    assert market.balance() == before
    assert Incident.objects.get(source=f"attempt:{attempt.pk}").owner == "provider"
    assert Flip.objects.exclude(machine=host).filter(to="offline").count() == flips
    assert check_all() == []
    # Back again, it is told that nobody wants that job any more, and its GPU is for rent.
    assert market.engine is not None
    wait(lambda: not market.engine.containers.list(), "the host ends what it still ran")  # type: ignore[union-attr]
    wait(lambda: market.listing(*ADAS_L4), "its GPU is for rent again")


def _fresh(attempt: Attempt) -> Attempt:
    return Attempt.objects.select_related("job", "machine").get(pk=attempt.pk)


def _is_called_offline(market: Market, host: Machine) -> None:
    market.until(lambda: MachineHealth.objects.get(machine=host).state == "offline", without=host)
    health = MachineHealth.objects.get(machine=host)
    flip = Flip.objects.filter(machine=host, to="offline").latest("id")
    assert flip.at == health.last_seen_at + timedelta(seconds=OFFLINE_SECONDS)
    assert flip.noticed_at - flip.at < timedelta(seconds=2 * STEP_SECONDS)
    assert OnlineInterval.objects.filter(machine=host).latest("id").ended_at == health.last_seen_at
