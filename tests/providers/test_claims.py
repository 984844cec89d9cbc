"""A GPU has one holder at a time, jobs and benchmarks alike; a set is claimed whole or not at all."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.models import User
from core import clock
from core.errors import Conflict
from providers import services
from providers.models import Gpu, GpuClaim, Machine
from tests.factories.cast import person
from tests.factories.providers import enrol, gpu_report, gpus_of, inventory, machine_make, provider_make


@pytest.fixture
def machine(db: None, ada: User, olga: User) -> Machine:
    """Ada's machine with four L4."""
    return machine_make(provider_make(ada, reviewer=olga), gpus=[gpu_report() for _number in range(4)])


def claim(gpus: list[Gpu], holder: UUID | None = None, kind: str = "job") -> UUID:
    holder = holder or uuid4()
    assert services.gpus_claim(gpu_ids=[gpu.pk for gpu in gpus], kind=kind, holder=holder, now=clock.now())
    return holder


def live() -> int:
    return GpuClaim.objects.filter(live=True).count()


def test_a_claim_holds_until_it_is_released(machine: Machine) -> None:
    gpus = gpus_of(machine)
    holder = claim(gpus[:2])
    assert live() == 2
    assert sorted(services.gpus_release(holder=holder, now=clock.now())) == sorted(gpu.pk for gpu in gpus[:2])
    assert live() == 0 and services.gpus_release(holder=holder, now=clock.now()) == []
    claim(gpus)
    assert live() == 4


def test_all_or_none(machine: Machine) -> None:
    gpus = gpus_of(machine)
    claim(gpus[3:])
    with pytest.raises(Conflict) as refused:
        claim(gpus)
    assert refused.value.code == "gpu_taken" and live() == 1


def test_a_benchmark_and_a_job_exclude_each_other(machine: Machine) -> None:
    gpus = gpus_of(machine)
    run = claim(gpus[:1], kind="benchmark")
    with pytest.raises(Conflict):
        claim(gpus[:1])
    services.gpus_release(holder=run, now=clock.now())
    claim(gpus[:1])
    with pytest.raises(Conflict):
        claim(gpus[:1], kind="benchmark")


def test_claiming_again_as_the_holder_is_no_conflict(machine: Machine) -> None:
    gpus = gpus_of(machine)
    holder = claim(gpus)
    claim(gpus, holder)
    assert live() == 4


def test_nothing_and_unknown_gpus(machine: Machine) -> None:
    assert services.gpus_claim(gpu_ids=[], kind="job", holder=uuid4(), now=clock.now())
    with pytest.raises(Conflict):
        services.gpus_claim(gpu_ids=[uuid4()], kind="job", holder=uuid4(), now=clock.now())
    assert live() == 0


def test_a_job_takes_only_what_is_on_offer(machine: Machine) -> None:
    held = gpus_of(machine)[0]
    Gpu.objects.filter(pk=held.pk).update(status="needs_review", reason="unknown_model")
    with pytest.raises(Conflict):
        claim([held])
    claim([held], kind="benchmark")


def test_a_new_machine_is_measured_but_takes_no_job(machine: Machine) -> None:
    new, _credential, _token = enrol(machine.provider)
    services.machine_inventory_record(machine=new, inventory=inventory([gpu_report()]), now=clock.now())
    with pytest.raises(Conflict):
        claim(gpus_of(new))
    run = claim(gpus_of(new), kind="benchmark")
    services.gpus_release(holder=run, now=clock.now())
    services.machine_confirm(machine=new, actor="test", now=clock.now())
    claim(gpus_of(new))


def test_the_database_itself_refuses_a_second_live_claim(machine: Machine) -> None:
    gpu = gpus_of(machine)[0]
    claim([gpu])
    with pytest.raises(IntegrityError), transaction.atomic():
        GpuClaim.objects.create(gpu=gpu, kind="job", holder=uuid4(), claimed_at=clock.now())
    with pytest.raises(IntegrityError), transaction.atomic():
        GpuClaim.objects.filter(gpu=gpu).update(holder=uuid4())
    with pytest.raises(IntegrityError), transaction.atomic():
        GpuClaim.objects.filter(gpu=gpu).update(live=False)  # without an instant
    with pytest.raises(IntegrityError), transaction.atomic():
        GpuClaim.objects.all().delete()


def _threads(count: int, work: Any) -> list[Any]:
    gate = Barrier(count)

    def run(number: int) -> Any:
        try:
            gate.wait(60)
            return work(number)
        except Conflict as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_four_claimants_of_overlapping_sets(committed_db: str) -> None:
    machine = machine_make(
        provider_make(person("Ada"), reviewer=person("Olga", is_staff=True)), gpus=[gpu_report() for _ in range(4)]
    )
    gpus = gpus_of(machine)
    gate = Barrier(4)

    def without_the_guard(_number: int) -> str:
        """The control: look whether it is free, then take it, as one would without a claim that is a law."""
        free = not GpuClaim.objects.filter(gpu=gpus[0], live=True).exists()
        gate.wait(60)
        return "taken" if free else "gpu_taken"

    assert _threads(4, without_the_guard) == ["taken"] * 4

    for round_number in range(5):
        # Each wants two neighbours, in opposite orders: at most two can win, none may hold one alone.
        sets = [[gpus[n], gpus[(n + 1) % 4]][:: 1 if n % 2 else -1] for n in range(4)]
        outcomes = _threads(4, lambda n, sets=sets: claim(sets[n]))
        winners = [outcome for outcome in outcomes if isinstance(outcome, UUID)]
        held = Counter(GpuClaim.objects.filter(live=True).values_list("holder", flat=True))
        assert 1 <= len(winners) <= 2, round_number
        assert held == Counter(dict.fromkeys(winners, 2))
        for winner in winners:
            services.gpus_release(holder=winner, now=clock.now())


def test_a_retirement_and_a_claim_wait_for_each_other(committed_db: str) -> None:
    machine = machine_make(provider_make(person("Ada"), reviewer=person("Olga", is_staff=True)))
    gpus = gpus_of(machine)

    def work(number: int) -> Any:
        if number:
            return claim(gpus)
        return services.machine_retire(machine=Machine.objects.get(pk=machine.pk), actor="t", now=clock.now()).status

    retired, claimed = _threads(2, work)
    machine.refresh_from_db()
    if isinstance(claimed, UUID):
        assert (retired, machine.status, live()) == ("jobs_running", "active", 1)
    else:
        assert (retired, machine.status, live()) == ("retired", "retired", 0)
