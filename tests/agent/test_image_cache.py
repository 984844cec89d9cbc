"""Images that jobs bring to a real Docker Engine, through the real guard: which are removed for room, and which never."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import docker
import pytest

from agent.disk import Disk
from agent.runtime import image_cache
from agent.runtime.base import JobOrder, JobState, RuntimeRefused
from agent.runtime.docker import DockerRuntime
from agent_protocol.reasons import Owner, reason_get
from tests.agent.docker_engine import DockerEngine
from tests.agent.docker_jobs import job, settings
from tests.agent.guard_requests import API, ask
from tests.agent.guard_requests import order_of as order
from tests.agent.registry import FakeRegistry, _layer
from tests.agent.waiting import eventually

pytestmark = pytest.mark.engine

GB = 10**9


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture(scope="module")
def own(registry: FakeRegistry) -> str:
    """The agent's own image, as the installer names it to the guard."""
    return f"{registry.name}/agent@{registry.put(_layer(), {'Env': ['OWN=1']})}"


@pytest.fixture(scope="module")
def engine(registry: FakeRegistry, own: str) -> Iterator[DockerEngine]:
    made = DockerEngine(registries=(registry.name,), guard_options=("--allow-image", own))
    made.start()
    yield made
    made.close()


@dataclass
class Bench:
    """A runtime whose disk says what the test wants, on an engine with nothing in it."""

    engine: DockerEngine
    registry: FakeRegistry
    state: Path
    free: Callable[[], int]
    made: list[DockerRuntime]

    def agent(self) -> DockerRuntime:
        """A new one on the same state folder."""
        disk = lambda _folder: Disk(1000 * GB, self.free())  # noqa: E731
        self.made.append(DockerRuntime(settings(self.engine, self.registry, self.state), "machine-1", disk))
        return self.made[-1]

    def image(self) -> str:
        """The name of one that nobody has pulled yet."""
        return f"{self.registry.name}/busybox@{self.registry.put(_layer(), {'Env': [f'NONCE={uuid4().hex}']})}"

    def order(self, image: str, script: str = "true") -> JobOrder:
        return order(job(self.registry, script, image=image))

    def used(self, runtime: DockerRuntime, image: str) -> str:
        """Pulled for a job that has ended since; its name by digest."""
        wanted = self.order(image)
        found = runtime.prepare(wanted, lambda: False)
        runtime.release(wanted.name)
        return found

    def has(self, image: str) -> bool:
        client = self.engine.client()
        try:
            client.images.get(image)
        except docker.errors.ImageNotFound:
            return False
        finally:
            client.close()
        return True


@pytest.fixture
def bench(engine: DockerEngine, registry: FakeRegistry, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(engine, registry, tmp_path, lambda: 500 * GB, [])
    yield made
    for runtime in made.made:
        runtime.close()
    engine.empty()
    client = engine.client()
    for image in client.images.list():
        client.images.remove(image.id, force=True)
    client.close()


def full(bench: Bench, runtime: DockerRuntime, image: str | None = None) -> RuntimeRefused:
    with pytest.raises(RuntimeRefused) as caught:
        runtime.prepare(bench.order(image or bench.image()), lambda: False)
    return caught.value


def test_a_full_disk_gives_up_what_only_ended_jobs_have_used_and_nothing_else(bench: Bench, own: str) -> None:
    client = bench.engine.client()
    runtime = bench.agent()
    by_tag, by_digest, ours, tagged, held, stopped, suite = (bench.image() for _ in range(7))
    name, digest = by_digest.split("@")
    client.images.pull(name, tag=digest)
    name, digest = by_tag.split("@")
    client.images.pull(name, tag=digest)
    client.api.tag(by_tag, "provider/tool", "1")
    for image in (by_tag, by_digest, ours, tagged):
        assert bench.used(runtime, image) == image
    client.api.tag(tagged, "provider/likes-it", "1")
    runtime.prepare(bench.order(held), lambda: False)
    running = bench.order(stopped)
    runtime.start(running, runtime.prepare(running, lambda: False))
    # Nobody remembers that one any more, as after a restart of the agent: its container is enough.
    runtime._images.let_go(running.name)
    assert bench.used(runtime, suite) == suite
    runtime.prepare(
        JobOrder(name="gpunex-suite", machine_id="machine-1", plan=bench.order(suite).plan, own_image=True), no
    )
    name, digest = own.split("@")
    client.images.pull(name, tag=digest)
    client.close()

    bench.free = lambda: 0
    refused = full(bench, runtime)
    assert (refused.reason, refused.message_code) == ("host_disk_full", "pull")
    assert reason_get(refused.reason).owner is Owner.PROVIDER
    assert not bench.has(ours)
    kept = {"by_tag": by_tag, "by_digest": by_digest, "tagged": tagged, "held": held, "stopped": stopped}
    kept |= {"suite": suite, "own": own}
    assert [name for name, image in kept.items() if not bench.has(image)] == []
    # What is here needs no room.
    assert bench.used(runtime, by_digest) == by_digest


def no() -> bool:
    return False


def test_the_longest_unused_makes_room_and_the_job_runs(bench: Bench) -> None:
    runtime = bench.agent()
    first, second, third = (bench.used(runtime, bench.image()) for _ in range(3))
    bench.used(runtime, first)
    bench.free = lambda: 0 if bench.has(second) else 500 * GB
    wanted = bench.order(f"{bench.registry.name}/busybox:1", "echo there was room")
    runtime.start(wanted, runtime.prepare(wanted, no))
    eventually(lambda: runtime.observe(wanted.name).state is JobState.EXITED, "it ends", 60)
    assert runtime.log_read(wanted.name, 0, 100).content == b"there was room\n"
    assert [bench.has(image) for image in (first, second, third)] == [True, False, True]


def test_an_image_of_a_tag_is_ours_too(bench: Bench) -> None:
    """Pulled by what the tag meant, so that no tag of ours can be taken for the owner's."""
    runtime = bench.agent()
    pulled = bench.used(runtime, f"{bench.registry.name}/busybox:1")
    assert pulled == f"{bench.registry.name}/busybox@{bench.registry.digest}"
    assert not bench.has(f"{bench.registry.name}/busybox:1")
    bench.free = lambda: 0
    full(bench, runtime)
    assert not bench.has(pulled)


def test_the_next_agent_knows_what_jobs_have_brought_and_one_without_memory_touches_nothing(bench: Bench) -> None:
    first, second = (bench.used(bench.agent(), bench.image()) for _ in range(2))
    memory = bench.state / "images.json"
    assert stat.S_IMODE(os.stat(memory).st_mode) == 0o600
    bench.free = lambda: 0
    kept = memory.read_text()
    for damaged in ("", "[]", '{"x": {"here": 1}}', None):
        memory.unlink() if damaged is None else memory.write_text(damaged)
        full(bench, bench.agent())
        assert bench.has(first)
        assert bench.has(second)
    memory.write_text(kept)
    full(bench, bench.agent())
    assert not bench.has(first)
    assert not bench.has(second)


def test_an_image_that_was_here_before_needs_what_it_took_then(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = bench.agent()
    image = bench.used(runtime, bench.image())
    client = bench.engine.client()
    size = client.images.get(image).attrs["Size"]
    client.close()
    reserve = Disk(1000 * GB, 0).reserve
    bench.free = lambda: reserve + int(size * image_cache.UNPACKING_SHARE) - 1
    assert full(bench, runtime).reason == "host_disk_full"
    assert not bench.has(image)
    assert full(bench, runtime, image).reason == "host_disk_full"
    bench.free = lambda: reserve + int(size * image_cache.UNPACKING_SHARE)
    assert bench.used(runtime, image) == image
    assert full(bench, runtime).reason == "host_disk_full", "of another nothing is known"


@pytest.mark.parametrize(("constant", "value"), [("KEPT_S", -1.0), ("KEPT_BYTES", 0), ("KEPT_FREE_BYTES", 900 * GB)])
def test_the_tidy_removes_what_is_old_or_too_much(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, constant: str, value: float
) -> None:
    monkeypatch.setattr(image_cache, "KEPT_FREE_SHARE", 1.0)
    runtime = bench.agent()
    image, held = bench.used(runtime, bench.image()), bench.image()
    runtime.prepare(bench.order(held), no)
    runtime.tidy()
    assert bench.has(image)
    monkeypatch.setattr(image_cache, constant, value)
    runtime.tidy()
    assert not bench.has(image)
    assert bench.has(held)


def test_a_disk_that_cannot_be_read_refuses_nothing(bench: Bench) -> None:
    runtime = DockerRuntime(settings(bench.engine, bench.registry, bench.state), "machine-1", lambda _folder: None)
    bench.made.append(runtime)
    image = bench.used(runtime, bench.image())
    runtime.tidy()
    assert bench.has(image)


def test_the_guard_removes_no_image_that_is_the_agents_own_tagged_or_used(bench: Bench, own: str) -> None:
    client = bench.engine.client()
    tagged, used, free = (bench.image() for _ in range(3))
    for image in (own, tagged, used, free):
        name, digest = image.split("@")
        client.images.pull(name, tag=digest)
    client.api.tag(tagged, "provider/tool", "1")
    client.containers.create(used, ["true"], network_mode="none")
    client.close()

    def removed(image: str) -> tuple[int, Any]:
        return ask(bench.engine.guard.path, "DELETE", f"{API}/images/{image.replace('@', '%40')}")

    # Whatever repository it is said to come from.
    for image in (own, own.replace("/agent@", "/busybox@")):
        status, answer = removed(image)
        assert (status, answer["message"].split(",")[0]) == (403, "guard: image: found the agent's own")
    assert removed(tagged)[0] == 403
    assert removed(used)[0] == 409
    assert all(bench.has(image) for image in (own, tagged, used, free))
    assert removed(free) == (200, [])
    assert not bench.has(free)
    assert removed(free)[0] == 404
