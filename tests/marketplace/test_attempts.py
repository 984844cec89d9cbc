"""What agents say: in order, twice, late, under an old token, from another boot, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.utils import translation

from accounts.models import Notification, User
from agent_protocol.reasons import REASONS
from core.errors import Conflict, NotFound
from core.models import StatusEvent
from marketplace.models import Attempt, AttemptEvidence, Job, Rental
from marketplace.outcomes import reason_sentence, reason_words
from marketplace.services import StaleToken, attempts_sweep, jobs_place
from marketplace.states import (
    LIMIT_MARGIN_SECONDS,
    OFFER_SECONDS,
    PARTITION_MARGIN_SECONDS,
    PULL_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
)
from providers.models import GpuClaim, Machine, PlanItem
from reliability.models import Incident, Outcome
from tests.factories.marketplace import Agent, live_attempt, machine_new, provider_new, story
from tests.marketplace.conftest import At

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("books")]

GRACE = 30 * 60


def moves(attempt: Attempt) -> list[str]:
    return list(StatusEvent.objects.filter(subject_id=attempt.pk).order_by("id").values_list("new", flat=True))


def test_a_job_runs_and_succeeds(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    for second, state, elapsed in ((1, "pulling", None), (10, "starting", None), (12, "running", 1)):
        told.agent.observe(told.attempt, state, at=at(second), elapsed=elapsed)
    told.agent.end(told.attempt, at=at(60), elapsed=48)
    told.reload()
    assert (told.job.status, told.job.reason, told.job.ended_at) == ("succeeded", "completed", at(60))
    assert moves(told.attempt) == ["pulling", "starting", "running", "ended"]
    assert told.listing.gpus_free == 1
    assert told.agent.plan() == {}
    assert not GpuClaim.objects.filter(live=True).exists()
    outcome = Outcome.objects.get()
    assert (outcome.completed, outcome.gpu_seconds) == (True, 48)
    assert not Incident.objects.exists()


def test_reports_twice_or_out_of_order_move_nothing_back(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "running", at=at(30), elapsed=20)
    for second, state, elapsed in (
        (31, "pulling", None),
        (32, "running", 20),
        (55, "starting", None),
        (80, "running", 15),
    ):
        told.agent.observe(told.attempt, state, at=at(second), elapsed=elapsed)
    told.reload()
    assert moves(told.attempt) == ["running"]
    assert told.attempt.started_at == at(10)
    assert told.attempt.confirmed_elapsed_s == 20


def test_an_end_twice_is_one_end(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "running", at=at(10), elapsed=1)
    for second in (60, 61, 90):
        told.agent.end(told.attempt, at=at(second), elapsed=51)
    told.agent.observe(told.attempt, "running", at=at(95), elapsed=86)
    told.reload()
    assert (told.attempt.ended_at, told.attempt.confirmed_elapsed_s) == (at(60), 51)
    assert Outcome.objects.count() == 1
    assert list(AttemptEvidence.objects.values_list("code", flat=True)) == ["after_end"]


def test_a_start_is_not_dated_back_before_we_heard_that_it_had_not_started(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "pulling", at=at(100))
    told.agent.observe(told.attempt, "running", at=at(130), elapsed=10_000)
    assert told.reload().attempt.started_at == at(100)
    assert Rental.objects.get().started_at == at(100)


def test_a_stale_token_is_refused_and_kept(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    with pytest.raises(StaleToken):
        told.agent.observe(told.attempt, "running", at=at(5), elapsed=1, token="gpxt_old")
    with pytest.raises(StaleToken):
        told.agent.end(told.attempt, at=at(6), token="gpxt_old")
    told.reload()
    assert (told.attempt.status, told.attempt.confirmed_at, told.job.status) == ("offered", None, "active")
    kept = list(AttemptEvidence.objects.order_by("id"))
    assert [row.code for row in kept] == ["stale_token", "stale_token"]
    assert all("token" not in row.report for row in kept)


def test_another_machine_knows_nothing_of_it(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    stranger = Agent(machine_new(provider_new()), tokens=told.agent.tokens)
    with pytest.raises(NotFound):
        stranger.end(told.attempt, at=at(5))
    assert told.reload().job.status == "active"


def test_what_another_boot_says_is_no_evidence(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "running", at=at(10), elapsed=5)
    rebooted = replace(told.agent, machine=Machine.objects.get(pk=told.agent.machine.pk))
    rebooted.machine.boot_id = "boot-2"
    rebooted.observe(told.attempt, "running", at=at(500), elapsed=495)
    told.reload()
    assert (told.attempt.confirmed_at, told.attempt.confirmed_elapsed_s) == (at(10), 5)
    assert AttemptEvidence.objects.get().code == "other_boot"
    rebooted.end(told.attempt, at=at(510), reason="host_restart", exit_code=None, elapsed=500)
    told.reload()
    assert (told.attempt.reason, told.attempt.confirmed_elapsed_s) == ("host_restart", 5)
    assert Incident.objects.get().reason == "host_restart"


def test_an_offer_to_a_boot_that_is_gone_costs_the_customer_no_attempt(ravi: User, at: At) -> None:
    """The machine has restarted between the placement and its agent's first look at the plan, and refuses."""
    told = story(ravi, now=at(0), gpus=2, max_attempts=1)
    rebooted = replace(told.agent, machine=Machine.objects.get(pk=told.agent.machine.pk))
    rebooted.machine.boot_id = "boot-2"
    rebooted.observe(told.attempt, "pulling", at=at(20))
    assert told.reload().attempt.status == "offered"
    assert AttemptEvidence.objects.get().code == "other_boot"
    rebooted.end(told.attempt, at=at(21), reason="host_restart", exit_code=None, elapsed=None)
    told.reload()
    assert (told.attempt.reason, told.attempt.taken_up_at, told.job.status) == ("host_restart", None, "queued")
    assert Incident.objects.get().weight_seconds is None


def test_a_restart_after_the_offer_was_taken_up_is_the_providers(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), gpus=2, max_attempts=2)
    told.agent.observe(told.attempt, "pulling", at=at(5))
    rebooted = replace(told.agent, machine=Machine.objects.get(pk=told.agent.machine.pk))
    rebooted.machine.boot_id = "boot-2"
    rebooted.end(told.attempt, at=at(60), reason="host_restart", exit_code=None, elapsed=None)
    told.reload()
    assert (told.attempt.reason, told.attempt.taken_up_at, told.job.status) == ("host_restart", at(5), "queued")
    assert Incident.objects.get().owner == "provider"
    assert told.job.attempts.filter(taken_up_at__isnull=False).count() == 1


def test_a_providers_fault_is_tried_again_elsewhere(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), gpus=2, max_attempts=2)
    told.agent.observe(told.attempt, "running", at=at(10), elapsed=5)
    told.agent.end(told.attempt, at=at(40), reason="gpu_lost", exit_code=None, elapsed=30)
    assert told.reload().job.status == "queued"
    assert (told.job.reason, told.job.ended_at) == ("", None)
    assert jobs_place(now=at(41)) == 0  # the machine that failed it is avoided for ten minutes
    assert jobs_place(now=at(40 + 601)) == 1
    again = live_attempt(told.job)
    assert again.number == 2
    assert told.agent.token(again) != told.agent.token(told.attempt)
    with pytest.raises(StaleToken):
        told.agent.observe(again, "running", at=at(700), elapsed=1, token=told.agent.token(told.attempt))


@pytest.mark.parametrize(
    ("reason", "exit_code", "oom", "status", "believed"),
    [
        ("nonzero_exit", 3, False, "failed", "nonzero_exit"),
        ("nonzero_exit", 137, True, "failed", "out_of_memory"),
        ("completed", 1, False, "failed", "unknown"),
        ("image_missing", None, False, "failed", "image_missing"),
        ("cancelled", 0, False, "failed", "unknown"),
        ("orphaned", None, False, "lost", "orphaned"),
    ],
)
def test_bad_ends(
    ravi: User, at: At, reason: str, exit_code: int | None, oom: bool, status: str, believed: str
) -> None:
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "running", at=at(10), elapsed=5)
    told.agent.end(told.attempt, at=at(40), reason=reason, exit_code=exit_code, elapsed=30, oom=oom)
    told.reload()
    assert (told.job.status, told.job.reason, told.attempt.exit_code) == (status, believed, exit_code)
    assert Notification.objects.filter(kind="job_ended").count() == 1
    assert not Outcome.objects.exclude(completed=None).exists()


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_is_told_in_the_readers_language(reason: str) -> None:
    with translation.override("zh-hans"):
        assert str(reason_words(reason)) == reason_sentence(reason) != REASONS[reason].sentence


def test_a_customer_is_told_in_chinese_why_the_job_ended(ravi: User, at: At) -> None:
    User.objects.filter(pk=ravi.pk).update(language="zh-hans")
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "running", at=at(10), elapsed=5)
    told.agent.end(told.attempt, at=at(40), reason="nonzero_exit", exit_code=3, elapsed=30)
    message = Notification.objects.get(kind="job_ended")
    assert "失败" in message.subject and "命令以非 0 退出码结束。" in message.body


class TestSilence:
    def test_an_offer_goes_back_to_the_queue_after_a_minute(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0))
        assert attempts_sweep(now=at(OFFER_SECONDS - 1)) == 0
        assert attempts_sweep(now=at(OFFER_SECONDS)) == 1
        assert attempts_sweep(now=at(OFFER_SECONDS)) == 0
        told.reload()
        assert (told.job.status, told.attempt.reason) == ("queued", "lease_expired")
        assert told.listing.gpus_free == 1
        assert Incident.objects.get().weight_seconds is None

    @pytest.mark.parametrize(("state", "patience"), [("pulling", PULL_SECONDS), ("starting", START_SECONDS)])
    def test_what_does_not_get_going_is_given_up(self, ravi: User, at: At, state: str, patience: int) -> None:
        told = story(ravi, now=at(0))
        told.agent.observe(told.attempt, state, at=at(10))
        told.agent.observe(told.attempt, state, at=at(10 + patience - 1))
        assert attempts_sweep(now=at(10 + patience - 1)) == 0
        assert attempts_sweep(now=at(10 + patience)) == 1
        assert told.reload().job.reason == "never_started"

    def test_a_partition_longer_than_the_grace_loses_the_job(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), disconnect_grace_s=GRACE)
        told.agent.observe(told.attempt, "running", at=at(100), elapsed=90)
        lost = 100 + GRACE + PARTITION_MARGIN_SECONDS
        assert attempts_sweep(now=at(lost - 1)) == 0
        assert attempts_sweep(now=at(lost)) == 1
        told.reload()
        assert (told.job.status, told.job.reason) == ("lost", "offline")
        assert told.listing.gpus_free == 1
        # Its late report comes with the token of an ended attempt: kept, and nothing moves.
        told.agent.end(told.attempt, at=at(lost + 60), elapsed=lost - 10)
        assert told.reload().job.status == "lost"
        assert AttemptEvidence.objects.get().code == "after_end"

    def test_back_within_the_grace_nothing_happened(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), disconnect_grace_s=GRACE)
        told.agent.observe(told.attempt, "running", at=at(100), elapsed=90)
        told.agent.observe(told.attempt, "running", at=at(100 + GRACE), elapsed=90 + GRACE)
        assert attempts_sweep(now=at(100 + GRACE + PARTITION_MARGIN_SECONDS)) == 0
        assert told.reload().attempt.confirmed_elapsed_s == 90 + GRACE

    def test_an_overdue_time_limit_is_ordered_by_us(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), time_limit_s=600)
        told.agent.observe(told.attempt, "running", at=at(10), elapsed=10)
        over = 600 + LIMIT_MARGIN_SECONDS
        told.agent.observe(told.attempt, "running", at=at(over - 1), elapsed=over - 1)
        assert attempts_sweep(now=at(over - 1)) == 0
        assert attempts_sweep(now=at(over)) == 1
        assert told.reload().attempt.stop_reason == "time_limit"
        told.agent.end(told.attempt, at=at(over + 5), reason="nonzero_exit", exit_code=143, elapsed=over + 5)
        assert told.reload().job.reason == "time_limit"

    def test_a_stop_that_is_not_confirmed_keeps_the_gpu_out_of_use(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0))
        told.agent.observe(told.attempt, "running", at=at(10), elapsed=5)
        told.agent.observe(told.attempt, "stopping", at=at(20), elapsed=15)
        told.agent.observe(told.attempt, "stopping", at=at(20 + STOP_SECONDS), elapsed=600)
        assert attempts_sweep(now=at(20 + STOP_SECONDS)) == 1
        told.reload()
        assert (told.attempt.status, told.attempt.kept_gpus, told.listing.gpus_free) == ("ended", True, 0)
        assert PlanItem.objects.filter(key=told.attempt.pk).exists()
        told.agent.observe(told.attempt, "ended", at=at(2_000))
        told.reload()
        assert (told.attempt.kept_gpus, told.listing.gpus_free) == (False, 1)
        assert told.agent.plan() == {}

    def test_evidence_is_bounded(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0))
        for number in range(60):
            with pytest.raises(Conflict):
                told.agent.observe(told.attempt, "running", at=at(number), elapsed=1, token="gpxt_old")
        assert AttemptEvidence.objects.count() == 50
        assert Job.objects.get().status == "active"
