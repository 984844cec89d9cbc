"""What a machine reports, held against the catalogue, the approved application and the other machines."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.models import User
from core import clock
from core.errors import Conflict, Invalid
from core.models import StatusEvent
from providers import services
from providers.models import Gpu, GpuModel, Machine, Provider
from tests.factories.cast import person
from tests.factories.providers import enrol, gpu_report, gpus_of, groups, inventory, machine_make, provider_make

MINUTE = timedelta(minutes=1)


@pytest.fixture
def provider(db: None, ada: User, olga: User) -> Provider:
    """Ada, approved for two L4 and one H100 SXM."""
    return provider_make(ada, reviewer=olga, gpus=groups(("l4-24gb", 2), ("h100-sxm-80gb", 1)))


def record(machine: Machine, *reported: Any) -> list[tuple[str, str]]:
    """Report the cards; (status, reason) of each row, by UUID."""
    services.machine_inventory_record(machine=machine, inventory=inventory(reported), now=clock.now())
    return states(machine)


def states(machine: Machine) -> list[tuple[str, str]]:
    return [(gpu.status, gpu.reason) for gpu in gpus_of(machine)]


def test_known_approved_cards_are_on_offer(provider: Provider) -> None:
    machine = machine_make(provider, gpus=[])
    found = record(machine, gpu_report("NVIDIA L4"), gpu_report("NVIDIA H100 80GB HBM3"))
    assert found == [("active", "")] * 2
    assert {gpu.model.slug for gpu in gpus_of(machine) if gpu.model} == {"l4-24gb", "h100-sxm-80gb"}
    machine.refresh_from_db()
    assert (machine.driver_version, machine.cpu_count) == ("550.54.15", 64) and len(machine.inventory_digest) == 64


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({"name": "NVIDIA B200"}, ("needs_review", "unknown_model")),
        ({"name": None}, ("needs_review", "unknown_model")),
        ({"name": "NVIDIA L4", "memory_bytes": 48 * 2**30}, ("needs_review", "memory_mismatch")),
        ({"name": "NVIDIA L4", "memory_bytes": None}, ("needs_review", "memory_unknown")),
        ({"name": "NVIDIA L40S"}, ("needs_review", "not_approved")),
        ({"name": "NVIDIA L4", "mig_enabled": True}, ("unavailable", "mig")),
        ({"name": "NVIDIA L4", "uuid": "MIG-1234"}, ("unavailable", "mig")),
        ({"name": "NVIDIA L4", "health": "lost"}, ("unavailable", "lost")),
        ({"name": "NVIDIA L4", "health": "error"}, ("unavailable", "error")),
        ({"name": "NVIDIA L4", "health": "unknown"}, ("active", "")),
        ({"name": "NVIDIA L4", "mig_enabled": None}, ("active", "")),
    ],
)
def test_a_card_is_judged(provider: Provider, report: dict[str, Any], expected: tuple[str, str]) -> None:
    machine = machine_make(provider, gpus=[])
    assert record(machine, gpu_report(**report)) == [expected]


def test_more_than_approved_is_held_and_the_first_ones_stay(provider: Provider) -> None:
    machine = machine_make(provider, gpus=[gpu_report(uuid="GPU-m"), gpu_report(uuid="GPU-n")])
    found = record(machine, *(gpu_report(uuid=f"GPU-{letter}") for letter in "amn"))
    assert found == [("needs_review", "over_approved"), ("active", ""), ("active", "")]


def test_the_approved_number_is_counted_over_all_machines(provider: Provider) -> None:
    machine_make(provider, gpus=[gpu_report(uuid="GPU-a"), gpu_report(uuid="GPU-b")])
    other = machine_make(provider, gpus=[gpu_report(uuid="GPU-c")])
    assert states(other) == [("needs_review", "over_approved")]


def test_a_card_that_is_gone_is_unavailable_and_comes_back(provider: Provider) -> None:
    machine = machine_make(provider, gpus=[gpu_report(uuid="GPU-a"), gpu_report(uuid="GPU-b")])
    first = gpus_of(machine)[0].first_seen_at
    assert record(machine, gpu_report(uuid="GPU-b")) == [("unavailable", "gone"), ("active", "")]
    assert record(machine, gpu_report(uuid="GPU-b"), gpu_report(uuid="GPU-a")) == [("active", "")] * 2
    gpu = gpus_of(machine)[0]
    assert gpu.first_seen_at == first and Gpu.objects.count() == 2
    moves = StatusEvent.objects.filter(subject_id=gpu.pk).order_by("id")
    assert [(event.new, event.reason) for event in moves] == [("unavailable", "gone"), ("active", "")]


def test_a_lost_card_keeps_its_model_and_only_it_is_unavailable(provider: Provider) -> None:
    machine = machine_make(provider, gpus=[gpu_report(uuid="GPU-a"), gpu_report(uuid="GPU-b")])
    lost = gpu_report(None, uuid="GPU-a", health="lost", memory_bytes=None)  # type: ignore[arg-type]
    assert record(machine, lost, gpu_report(uuid="GPU-b")) == [("unavailable", "lost"), ("active", "")]
    assert gpus_of(machine)[0].model == GpuModel.objects.get(slug="l4-24gb")


def test_the_order_of_cards_does_not_matter_and_a_repeat_changes_nothing(provider: Provider) -> None:
    machine = machine_make(provider, gpus=[gpu_report(uuid="GPU-a"), gpu_report(uuid="GPU-b")])
    events = StatusEvent.objects.count()
    record(machine, gpu_report(uuid="GPU-b"), gpu_report(uuid="GPU-a"))
    assert StatusEvent.objects.count() == events and Gpu.objects.count() == 2


def test_the_same_card_on_a_rivals_machine_holds_only_the_newcomer(provider: Provider, ravi: User, olga: User) -> None:
    incumbent = machine_make(provider, gpus=[gpu_report(uuid="GPU-a")])
    rival = machine_make(provider_make(ravi, reviewer=olga), gpus=[gpu_report(uuid="GPU-a")])
    assert states(rival) == [("needs_review", "uuid_elsewhere")]
    assert states(incumbent) == [("active", "")]
    assert record(rival, gpu_report(uuid="GPU-a", health="lost")) == [("needs_review", "uuid_elsewhere")]
    # A blip of the incumbent's card does not hand it over.
    assert record(incumbent, gpu_report(uuid="GPU-a", health="lost")) == [("unavailable", "lost")]
    assert record(rival, gpu_report(uuid="GPU-a")) == [("needs_review", "uuid_elsewhere")]
    assert record(incumbent, gpu_report(uuid="GPU-a")) == [("active", "")]


def test_a_card_moved_to_another_of_ones_own_machines_is_retired_there(provider: Provider) -> None:
    old, new = machine_make(provider, gpus=[gpu_report(uuid="GPU-a")]), machine_make(provider, gpus=[])
    assert record(new, gpu_report(uuid="GPU-a")) == [("needs_review", "uuid_elsewhere")]
    record(old)
    assert record(new, gpu_report(uuid="GPU-a")) == [("active", "")]
    assert states(old) == [("retired", "moved")]


def test_a_retired_machines_card_may_come_back_elsewhere(provider: Provider, ravi: User, olga: User) -> None:
    old = machine_make(provider, gpus=[gpu_report(uuid="GPU-a")])
    services.machine_retire(machine=old, actor="test", now=clock.now())
    assert states(old) == [("retired", "machine_retired")]
    sold = machine_make(provider_make(ravi, reviewer=olga), gpus=[gpu_report(uuid="GPU-a")])
    assert states(sold) == [("active", "")]
    with pytest.raises(Conflict) as gone:
        record(old, gpu_report(uuid="GPU-a"))
    assert gone.value.code == "machine_gone"


def test_a_reviewer_accepts_a_held_card_for_good(provider: Provider, olga: User) -> None:
    machine = machine_make(provider, gpus=[gpu_report("NVIDIA B200", uuid="GPU-a")])
    gpu, model = gpus_of(machine)[0], GpuModel.objects.get(slug="l4-24gb")
    with pytest.raises(Invalid):
        services.gpu_accept(gpu=gpu, model=model, reviewer=olga, reason=" ", now=clock.now())
    services.gpu_accept(gpu=gpu, model=model, reviewer=olga, reason="Seen.", now=clock.now())
    assert record(machine, gpu_report("NVIDIA B200", uuid="GPU-a")) == [("active", "")]


def test_a_reviewer_cannot_accept_a_card_that_sells_elsewhere(provider: Provider, ravi: User, olga: User) -> None:
    machine_make(provider, gpus=[gpu_report(uuid="GPU-a")])
    rival = machine_make(provider_make(ravi, reviewer=olga), gpus=[gpu_report(uuid="GPU-a")])
    model = GpuModel.objects.get(slug="l4-24gb")
    with pytest.raises(Conflict):
        services.gpu_accept(gpu=gpus_of(rival)[0], model=model, reviewer=olga, reason="?", now=clock.now())
    assert states(rival) == [("needs_review", "uuid_elsewhere")]


def test_the_news_is_published(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, Any]] = []
    monkeypatch.setattr("core.news.publish", lambda topic, subject, now: told.append((topic, subject)))
    machine, _credential, _token = enrol(provider)
    record(machine, gpu_report())
    services.machine_confirm(machine=machine, actor="test", now=clock.now())
    topics = [topic for topic, subject in told if subject == machine.pk]
    assert topics == ["machine.state", "machine.inventory", "machine.state"]


def test_two_machines_that_report_one_card_at_once(committed_db: str) -> None:
    olga = person("Olga", is_staff=True)
    machines = [
        machine_make(provider_make(person(name), reviewer=olga, gpus=groups(("l4-24gb", 2))), gpus=[])
        for name in ("Ada", "Ravi")
    ]
    gate = Barrier(2)

    def run(machine: Machine, without_the_lock: bool) -> str:
        try:
            gate.wait(60)
            if without_the_lock:
                return _insert_if_nobody_has_it(machine, gate)
            record(machine, gpu_report(uuid="GPU-a"))
            return Gpu.objects.get(machine=machine, uuid="GPU-a").status
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        # The control: both look, both see nobody, both insert; only the law in the database stops the second.
        control = sorted(pool.map(lambda machine: run(machine, True), machines))
        assert control == ["IntegrityError", "active"]
        found = sorted(pool.map(lambda machine: run(machine, False), machines))
    assert found == ["active", "needs_review"]


def _insert_if_nobody_has_it(machine: Machine, gate: Barrier) -> str:
    free = not Gpu.objects.filter(uuid="GPU-control").exists()
    gate.wait(60)
    assert free
    try:
        with transaction.atomic():
            Gpu.objects.create(
                machine=machine,
                uuid="GPU-control",
                model=GpuModel.objects.get(slug="l4-24gb"),
                status="active",
                health="ok",
                first_seen_at=clock.now(),
                last_seen_at=clock.now(),
            )
    except IntegrityError:
        return "IntegrityError"
    return "active"
