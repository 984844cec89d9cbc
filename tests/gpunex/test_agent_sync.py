"""POST /agent/v1/sync: an idle sync costs no SQL, a change is heard at once, and refusals have one shape."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
import redis
from django.db import OperationalError
from django.test import Client
from django.test.utils import override_settings

from agent_protocol import messages as wire
from agent_protocol.messages import inventory_digest
from benchmarks.models import Run
from benchmarks.services import runs_dispatch, runs_request_for_machine
from core import bell, clock
from core.models import Delivery
from core.valkey import valkey
from gpunex import agent_guard, agent_sync
from gpunex.agent_heartbeats import BATCH, Batch, Heartbeat
from gpunex.agent_sessions import MEMORY, RINGS_KEPT, Compared, Memory, Session, sessions_compare
from marketplace.models import AttemptEvidence
from marketplace.services import jobs_place
from providers.models import Gpu, GpuModel, Machine
from providers.services import machine_channel, machine_revoke, plan_put
from reliability.models import MachineHealth
from reliability.services import heartbeats_flush
from tests.factories.billing import USDC, funded
from tests.factories.cast import person
from tests.factories.marketplace import MIB, MODEL, job_new, listing_new, live_attempt, machine_new, provider_new
from tests.gpunex.hosts import Host


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    """Every test starts like a process that knows nothing."""
    MEMORY.forget(None)
    BATCH.flush()


@pytest.fixture
def host(db: None) -> Host:
    return Host(machine_new(provider_new(), measured=False))


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, f"not within 10 s: {what}"


def test_the_first_sync_brings_the_plan_and_a_ticket_that_opens_the_machines_bell(host: Host) -> None:
    answer = host.sync().json()
    assert answer["plan"] == []
    assert answer["inventory_wanted"] is False
    channel = bell.ticket_channel(answer["bell"]["ticket"], key=agent_sync.settings.BELL_SECRET, unix_now=time.time())
    assert channel == machine_channel(host.machine.pk)


def test_a_sync_in_which_nothing_changed_costs_no_sql(host: Host, django_assert_num_queries: Callable) -> None:  # type: ignore[type-arg]
    host.sync()
    with django_assert_num_queries(0):
        answer = host.sync()
    assert answer.json()["plan"] is None


def test_a_change_of_the_plan_is_in_the_next_sync(committed_db: str) -> None:
    host = Host(machine_new(provider_new(), measured=False))
    host.sync()
    until(lambda: MEMORY.listening, "the process listens")
    host.sync()
    rings = MEMORY.rings
    plan_put(machine_id=host.machine.pk, kind="benchmark", key=uuid4(), body={"run_id": "x"}, now=clock.now())
    until(lambda: MEMORY.rings > rings, "the ring is heard")
    answer = host.sync().json()
    assert [item["body"] for item in answer["plan"]] == [{"run_id": "x"}]
    assert answer["plan_version"] == host.plan_version


def test_a_revocation_is_felt_by_a_process_that_knew_the_machine(committed_db: str) -> None:
    host = Host(machine_new(provider_new(), measured=False))
    host.sync()
    until(lambda: MEMORY.listening, "the process listens")
    host.sync()
    rings = MEMORY.rings
    machine_revoke(machine=host.machine, actor="test", now=clock.now(), reason="stolen")
    until(lambda: MEMORY.rings > rings, "the ring is heard")
    for answer in (host.sync(), host.events(), host.log(uuid4(), token="t", offset=0, content=b"x")):
        assert (answer.status_code, answer.json()["code"]) == (401, "revoked")


def test_memory_that_a_ring_overtook_is_not_kept() -> None:
    memory, machine = Memory(), Machine(id=uuid4())
    memory.listening = True
    session = Session(machine=machine, loaded_at=0.0, inventory_digest="", told=("", "", (), False))
    memory.put(b"key", session, rings_before=memory.rings)
    assert memory.get(b"key", at=1.0) is session
    rings = memory.rings
    memory.forget(machine.pk)  # between reading and remembering
    memory.put(
        b"key",
        Session(machine=machine, loaded_at=0.0, inventory_digest="", told=("", "", (), False)),
        rings_before=rings,
    )
    assert memory.get(b"key", at=1.0) is None


def test_rings_about_others_cost_nobody_a_session_and_too_many_to_tell_do() -> None:
    memory, machine = Memory(), Machine(id=uuid4())
    memory.listening = True
    session = Session(machine=machine, loaded_at=0.0, inventory_digest="", told=("", "", (), False))
    for rings, kept in ((0, True), (1, True), (RINGS_KEPT, True), (RINGS_KEPT + 1, False)):
        before = memory.rings
        for _ in range(rings):
            memory.forget(uuid4())
        memory.put(key := f"after {rings}".encode(), session, rings_before=before)
        assert (memory.get(key, at=1.0) is session) is kept
    before = memory.rings
    memory.forget(None)
    memory.put(b"all", session, rings_before=before)
    assert memory.get(b"all", at=1.0) is None


def test_deaf_memory_is_believed_for_two_seconds_only() -> None:
    memory = Memory()
    session = Session(machine=Machine(id=uuid4()), loaded_at=0.0, inventory_digest="", told=("", "", (), False))
    memory.put(b"key", session, rings_before=memory.rings)
    assert memory.get(b"key", at=1.9) is session
    assert memory.get(b"key", at=2.1) is None
    memory.listening = True
    assert memory.get(b"key", at=29.0) is session
    assert memory.get(b"key", at=31.0) is None


def test_a_comparison_with_the_database_finds_what_no_ring_told(
    host: Host,
    django_assert_num_queries: Callable,  # type: ignore[type-arg]
) -> None:
    host.sync()
    with django_assert_num_queries(1):
        assert sessions_compare(MEMORY) >= 1
    with django_assert_num_queries(0):
        host.sync()
    Machine.objects.filter(pk=host.machine.pk).update(plan_version=77)  # no ring: it was lost
    assert host.sync().json()["plan_version"] != 77
    sessions_compare(MEMORY)
    assert host.sync().json()["plan_version"] == 77


def test_a_comparison_never_revives_what_a_ring_has_overtaken() -> None:
    memory, machine = Memory(), Machine(id=uuid4())
    memory.listening = True
    session = Session(
        machine=machine, loaded_at=0.0, used_at=0.0, inventory_digest="", told=("", "", (), False), plan_version=1
    )
    memory.put(b"key", session, rings_before=memory.rings)
    (key,) = memory.remembered(at=1.0)
    memory.forget(machine.pk)  # while the database answers
    memory.compare(key, Compared(1, "", ("", "", (), False)), at=1.0)
    assert memory.get(b"key", at=1.5) is None


def test_a_session_nobody_uses_is_dropped() -> None:
    memory = Memory()
    session = Session(
        machine=Machine(id=uuid4()), loaded_at=0.0, used_at=0.0, inventory_digest="", told=("", "", (), False)
    )
    memory.put(b"key", session, rings_before=memory.rings)
    assert memory.remembered(at=119.0) == [b"key"]
    assert memory.remembered(at=121.0) == []
    assert memory._sessions == memory._by_machine == {}


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        (b"{", 400, "invalid", "body"),
        (b'{"sequence": NaN}', 400, "invalid", "body"),
        ({"sequence": 0}, 400, "invalid", "sequence"),
        ({"telemetry": "none"}, 400, "invalid", "telemetry"),
        ({"attempts": [{"attempt_id": "x"}]}, 400, "invalid", "attempts.0.attempt_id"),
        ({"boot_id": "x" * 65}, 400, "invalid", "boot_id"),
        ({"stray": 1}, 400, "invalid", "stray"),
        ({"agent_version": "0.0.1"}, 426, "upgrade", None),
        (b" " * (2**20 + 1), 413, "too_large", None),
    ],
)
def test_what_is_not_the_protocol_is_refused_by_name_and_is_no_heartbeat(
    host: Host, body: object, status: int, code: str, field: str | None
) -> None:
    host.sync()
    BATCH.flush()
    answer = host.post("sync", body if isinstance(body, bytes) else host.sync_body(**body))  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert set(answer.json()) >= {"code", "message", "fields", "request_id"}
    if field:
        assert list(answer.json()["fields"]) == [field]
    assert BATCH.flush() == 0


@pytest.mark.parametrize("credential", ["gpxa_" + "x" * 43, "nonsense", ""])
def test_an_unknown_credential_opens_nothing(host: Host, credential: str) -> None:
    answer = Client().post(
        "/agent/v1/sync",
        host.sync_body(),
        content_type="application/json",
        headers={"Authorization": f"Bearer {credential}"},
    )
    assert answer.status_code == 401
    assert answer.json()["code"] != "revoked"
    assert Client().post("/agent/v1/sync", {}, content_type="application/json").status_code == 401


def test_get_is_refused(host: Host) -> None:
    assert host.client.get("/agent/v1/sync").status_code == 405


def test_a_machine_that_syncs_without_pause_is_slowed_down(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_sync, "BURST", 3.0)
    monkeypatch.setattr(agent_sync, "PER_SECOND", 0.0)
    statuses = [host.sync().status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    refusal = wire.RefusalReply.parse(host.sync().json())
    assert (refusal.code, refusal.retry_after_s) == ("slow_down", 5)


def test_an_inventory_is_recorded_and_wanted_no_more(host: Host) -> None:
    model = GpuModel.objects.get(slug=MODEL)
    alias = model.aliases.first()
    assert alias is not None
    card = wire.Gpu(
        uuid=f"GPU-{uuid4()}", name=alias.nvml_name, memory_bytes=model.memory_mib * MIB, health="ok", reasons={}
    )
    inventory = wire.Inventory(host=wire.Host(architecture="x86_64"), gpus=(card,))
    host.digest = inventory_digest(inventory)
    assert host.sync().json()["inventory_wanted"] is True
    assert host.sync(inventory=inventory.to_dict()).json()["inventory_wanted"] is False
    assert host.sync().json()["inventory_wanted"] is False
    assert Gpu.objects.get(machine=host.machine, uuid=card.uuid).status == "active"


def test_heartbeats_reach_reliability(host: Host) -> None:
    MachineHealth.objects.all().delete()
    host.sync(telemetry=[{"uuid": "GPU-00000000", "utilization_percent": 5}])
    BATCH.flush()
    heartbeats_flush(now=clock.now())
    health = MachineHealth.objects.get(machine_id=host.machine.pk)
    assert (health.state, health.boot_id) == ("online", host.boot_id)
    assert health.telemetry[0]["utilization_percent"] == 5
    assert health.telemetry[0]["power_w"] is None


def test_heartbeats_wait_for_valkey(host: Host) -> None:
    delivered: list[list[Heartbeat]] = []

    def away(beats: object) -> None:
        raise redis.ConnectionError

    batch = Batch(away, lambda seen: None)
    batch._started = True  # no thread: the test flushes
    beat = Heartbeat(host.machine.pk, clock.now(), "boot", [])
    batch.note(beat, sequence=1)
    with pytest.raises(redis.ConnectionError):
        batch.flush()
    batch._deliver = delivered.append  # type: ignore[assignment]
    assert batch.flush() == 1
    assert delivered == [[beat]]


def test_a_new_boot_and_degradations_are_recorded_once(host: Host, django_assert_num_queries: Callable) -> None:  # type: ignore[type-arg]
    host.sync()
    before = Delivery.objects.filter(topic="machine.state").count()
    host.boot_id = "boot-2"
    host.sync(degraded=["disk_low"])
    host.machine.refresh_from_db()
    assert (host.machine.boot_id, host.machine.degraded) == ("boot-2", ["disk_low"])
    assert Delivery.objects.filter(topic="machine.state").count() > before
    with django_assert_num_queries(0):
        host.sync(degraded=["disk_low"])


def test_an_identity_used_by_two_hosts_is_quarantined(host: Host) -> None:
    valkey().delete(agent_guard.KEY)
    now = clock.now()
    stale = [
        agent_guard.Seen(host.machine.pk, "boot-1", 5, now + timedelta(seconds=10 * step))
        for step in range(agent_guard.STRIKES + 1)
    ]
    agent_guard.guard_note(stale[:-1])
    host.machine.refresh_from_db()
    assert host.machine.status == "active"
    agent_guard.guard_note(stale[-1:])
    host.machine.refresh_from_db()
    assert (host.machine.status, host.machine.status_reason) == ("quarantined", "two_sessions")
    agent_guard.guard_note(stale)  # it is there already: nothing happens


def test_a_reported_state_moves_the_attempt_and_a_stale_token_moves_nothing(db: None) -> None:
    ravi = person("Ravi")
    funded(ravi, 100 * USDC)
    listing = listing_new()
    job = job_new(ravi)
    jobs_place(now=clock.now())
    attempt = live_attempt(job)
    host = Host(attempt.machine)
    assert listing.machine_id == host.machine.pk
    (item,) = host.sync().json()["plan"]
    report = {"attempt_id": str(attempt.pk), "token": item["body"]["token"], "state": "running", "elapsed_s": 0}
    assert host.sync(attempts=[report]).status_code == 200
    attempt.refresh_from_db()
    assert attempt.status == "running"
    assert host.sync(attempts=[report | {"token": "another", "state": "stopping"}]).status_code == 200
    attempt.refresh_from_db()
    assert attempt.status == "running"
    assert AttemptEvidence.objects.get(attempt=attempt).code == "stale_token"


def test_a_report_whose_recording_failed_is_passed_on_by_the_next_sync(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_new(provider_new(), measured=False)
    host, run = Host(machine), _offered(machine)
    report = {"run_id": str(run.pk), "state": "running", "progress_percent": 10}
    with monkeypatch.context() as broken:

        def no_database(**_: object) -> None:
            raise OperationalError("the database is away")

        broken.setattr(agent_sync, "run_observe", no_database)
        with pytest.raises(OperationalError):
            host.sync(benchmarks=[report])
    host.sync(benchmarks=[report])
    run.refresh_from_db()
    assert run.status == "running"


def test_a_running_benchmark_is_noticed(db: None) -> None:
    machine = machine_new(provider_new(), measured=False)
    host = Host(machine)
    from_plan = _offered(machine)
    host.sync(benchmarks=[{"run_id": str(from_plan.pk), "state": "running", "progress_percent": 10}])
    from_plan.refresh_from_db()
    assert from_plan.status == "running"
    # Somebody else's run is none of our business, and costs no heartbeat.
    assert host.sync(benchmarks=[{"run_id": str(uuid4()), "state": "running"}]).status_code == 200


def _offered(machine: Machine) -> Run:
    runs_request_for_machine(machine.pk)
    runs_dispatch(now=clock.now())
    return Run.objects.get(machine=machine, status="offered")


@override_settings(BELL_URL="http://127.0.0.1:9")
def test_the_web_server_shows_the_way_to_the_doorbell(client: Client) -> None:
    answer = client.get("/agent/v1/bell?ticket=a.b")
    assert (answer.status_code, answer["Location"]) == (307, "http://127.0.0.1:9/agent/v1/bell?ticket=a.b")


def test_without_a_doorbell_it_says_so(client: Client) -> None:
    answer = client.get("/agent/v1/bell?ticket=a.b")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
