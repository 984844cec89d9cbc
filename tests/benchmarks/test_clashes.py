"""Two machines report one card: the newcomer is held; the incumbent sells on unless it cannot prove that it has the card."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from accounts.models import Notification, User
from agent_protocol.messages import BenchmarkFailed
from benchmarks.models import Run
from benchmarks.services import run_fail, runs_dispatch, runs_expire
from benchmarks.services.requests import CLASH_ATTEMPTS
from core import clock, news
from providers import services
from providers.models import Gpu, GpuModel, Machine
from providers.services import gpus_claim, gpus_release
from tests.factories.providers import gpu_report, inventory, machine_make, provider_make

DAY = timedelta(days=1)


def report(machine: Machine) -> None:
    services.machine_inventory_record(machine=machine, inventory=inventory([gpu_report(uuid="GPU-a")]), now=clock.now())


def told() -> None:
    while news.deliver():
        pass


def clash_runs() -> list[str]:
    rows = Run.objects.filter(trigger="clash", gpu__uuid="GPU-a").order_by("requested_at")
    return [run.status for run in rows]


@pytest.fixture
def incumbent(db: None, ada: User, olga: User) -> Machine:
    machine = machine_make(provider_make(ada, reviewer=olga), gpus=[gpu_report(uuid="GPU-a")])
    told()
    Run.objects.update(status="failed", lease_until=None)  # its first run is over
    return machine


@pytest.fixture
def rival(incumbent: Machine, ravi: User, olga: User) -> Machine:
    machine = machine_make(provider_make(ravi, reviewer=olga), gpus=[gpu_report(uuid="GPU-a")])
    told()
    return machine


def states(*machines: Machine) -> list[tuple[str, str]]:
    return [Gpu.objects.values_list("status", "reason").get(machine=machine) for machine in machines]


def answer(reason: str) -> None:
    """The incumbent's agent says that it cannot."""
    now = clock.now()
    Run.objects.filter(status="requested").update(not_before=now)
    runs_dispatch(now=now)
    run = Run.objects.get(status="offered", trigger="clash")
    failure = BenchmarkFailed(run_id=str(run.pk), nonce=run.challenge["nonce"], reason=reason)
    run_fail(machine=run.machine, failure=failure, now=now)


def test_the_incumbent_sells_on_and_is_asked_at_once(incumbent: Machine, rival: Machine) -> None:
    assert states(incumbent, rival) == [("active", ""), ("needs_review", "uuid_elsewhere")]
    assert clash_runs() == ["requested"]
    runs_dispatch(now=clock.now())
    assert clash_runs() == ["offered"]


def test_whoever_claims_it_again_and_again_does_not_keep_it_busy(incumbent: Machine, rival: Machine) -> None:
    Run.objects.update(status="failed", lease_until=None)
    for _ in range(3):
        services.machine_inventory_record(machine=rival, inventory=inventory([]), now=clock.now())
        report(rival)
        told()
    assert clash_runs() == ["failed"]


def test_a_customers_job_is_not_disturbed(incumbent: Machine, ravi: User, olga: User) -> None:
    gpu, holder = Gpu.objects.get(machine=incumbent), uuid4()
    gpus_claim(gpu_ids=[gpu.pk], kind="job", holder=holder, now=clock.now())
    machine_make(provider_make(ravi, reviewer=olga), gpus=[gpu_report(uuid="GPU-a")])
    told()
    runs_dispatch(now=clock.now())
    assert (clash_runs(), states(incumbent)) == (["requested"], [("active", "")])
    gpus_release(holder=holder, now=clock.now())
    Run.objects.update(not_before=clock.now())
    runs_dispatch(now=clock.now())
    assert clash_runs() == ["offered"]


@pytest.mark.parametrize("reason", ["gpu_missing", "no_cuda"])
def test_who_does_not_have_it_is_held_too_until_a_reviewer_has_looked(
    incumbent: Machine, rival: Machine, olga: User, reason: str
) -> None:
    answer(reason)
    told()
    held = [("needs_review", "identity"), ("needs_review", "uuid_elsewhere")]
    assert states(incumbent, rival) == held
    assert [row.user.email for row in Notification.objects.filter(kind="gpu_held")] == ["ada@example.com"]
    # Neither a report nor a new look at the rules gives it back.
    report(incumbent)
    report(rival)
    services.machine_rejudge(machine_id=rival.pk, now=clock.now())
    assert states(incumbent, rival) == held
    assert not Run.objects.filter(status="requested").exists()
    model = GpuModel.objects.get(slug="l4-24gb")
    newcomer = Gpu.objects.get(machine=rival)
    services.gpu_accept(gpu=newcomer, model=model, reviewer=olga, reason="Invoice.", now=clock.now())
    assert states(incumbent, rival) == [("retired", "moved"), ("active", "")]


def test_a_busy_card_may_answer_later_but_not_for_ever(incumbent: Machine, rival: Machine) -> None:
    for number in range(CLASH_ATTEMPTS):
        assert states(incumbent) == [("active", "")], number
        answer("gpu_busy")
    assert states(incumbent) == [("needs_review", "identity")]


def test_silence_is_no_proof_either(incumbent: Machine, rival: Machine) -> None:
    for _ in range(CLASH_ATTEMPTS):
        now = clock.now()
        Run.objects.filter(status="requested").update(not_before=now)
        runs_dispatch(now=now)
        runs_expire(now=now + DAY)
    assert states(incumbent) == [("needs_review", "identity")]
