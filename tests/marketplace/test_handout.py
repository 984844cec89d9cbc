"""What a job keeps sealed is handed out once for each attempt, to the boot it was placed on, and to nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.models import User
from core.errors import NotFound
from marketplace.jobsecrets import JobSecrets
from marketplace.models import AttemptEvidence, Job
from marketplace.services import (
    SecretsGone,
    SecretsOtherBoot,
    StaleToken,
    attempt_secrets_collect,
    job_cancel,
    jobs_place,
)
from providers.models import Machine
from tests.factories.marketplace import Agent, Story, live_attempt, machine_new, provider_new, story
from tests.marketplace.conftest import At

pytestmark = pytest.mark.django_db
PASSWORD = "correct-horse-4711"


def placed(ravi: User, at: At, **options: Any) -> Story:
    return story(ravi, now=at(0), **({"secrets": {"TOKEN": PASSWORD}} | options))


def collect(told: Story, at: At, second: int = 5, **changes: Any) -> JobSecrets:
    asked: dict[str, Any] = {
        "machine": told.agent.machine,
        "attempt_id": told.attempt.pk,
        "token": told.agent.token(told.attempt),
        "boot_id": "boot-1",
        "now": at(second),
    }
    return attempt_secrets_collect(**(asked | changes))


def test_environment_and_login_come_once(ravi: User, at: At) -> None:
    told = placed(ravi, at, image="ravi/x", registry_username="ravi", registry_password=PASSWORD)
    found = collect(told, at)
    assert found.environment == {"TOKEN": PASSWORD}
    assert found.login == {"registry": "docker.io", "username": "ravi", "password": PASSWORD}
    for second in (6, 4000):
        with pytest.raises(SecretsGone):
            collect(told, at, second)
    assert told.reload().attempt.secrets_sent_at == at(5)


def test_each_attempt_has_them_once(ravi: User, at: At) -> None:
    told = placed(ravi, at, gpus=2, max_attempts=2)
    assert collect(told, at).environment
    told.agent.observe(told.attempt, "pulling", at=at(6))
    told.agent.end(told.attempt, at=at(7), reason="secrets_lost", exit_code=None, elapsed=None)
    assert told.reload().job.status == "queued"
    jobs_place(now=at(7 + 601))
    again = live_attempt(told.job)
    with pytest.raises(SecretsGone):
        collect(told, at, 610)
    following = Story(told.job, told.listing, Agent(again.machine), again)
    assert collect(following, at, 611).environment == {"TOKEN": PASSWORD}


def test_another_boot_gets_nothing_and_is_remembered(ravi: User, at: At) -> None:
    told = placed(ravi, at)
    with pytest.raises(SecretsOtherBoot):
        collect(told, at, boot_id="boot-2")
    # The machine has restarted: neither the boot that is, nor the one that was, gets them.
    Machine.objects.filter(pk=told.agent.machine.pk).update(boot_id="boot-2")
    for boot in ("boot-1", "boot-2"):
        with pytest.raises(SecretsOtherBoot):
            collect(told, at, boot_id=boot)
    kept = AttemptEvidence.objects.order_by("pk")
    assert [(row.code, row.report["boot_id"]) for row in kept] == [
        ("other_boot", "boot-2"),
        ("other_boot", "boot-1"),
        ("other_boot", "boot-2"),
    ]
    assert told.reload().attempt.secrets_sent_at is None


def test_another_token_or_another_machine_gets_nothing(ravi: User, at: At) -> None:
    told = placed(ravi, at)
    with pytest.raises(StaleToken):
        collect(told, at, token="an-old-token")
    with pytest.raises(NotFound):
        collect(told, at, machine=machine_new(provider_new()))
    assert AttemptEvidence.objects.get().code == "stale_token"
    assert told.reload().attempt.secrets_sent_at is None
    assert collect(told, at).environment


@pytest.mark.parametrize("state", ["running", "stopping"])
def test_what_has_started_needs_them_no_more(ravi: User, at: At, state: str) -> None:
    told = placed(ravi, at)
    told.agent.observe(told.attempt, state, at=at(3), elapsed=1)
    with pytest.raises(SecretsGone):
        collect(told, at)


def test_a_job_that_is_being_stopped_or_has_ended_hands_out_nothing(ravi: User, at: At) -> None:
    told = placed(ravi, at)
    told.agent.observe(told.attempt, "pulling", at=at(2))
    token = told.agent.token(told.attempt)
    job_cancel(job=told.job, actor=ravi, now=at(3))
    with pytest.raises(SecretsGone):
        collect(told, at, token=token)
    told.agent.end(told.attempt, at=at(6), reason="cancelled", exit_code=None, elapsed=None)
    with pytest.raises(SecretsGone):
        collect(told, at, 7, token=token)


def test_what_cannot_be_opened_any_more_stops_one_job_and_nothing_else(ravi: User, at: At) -> None:
    """The platform's key was lost: its machine's syncs go on, and the attempt ends."""
    told = placed(ravi, at)
    Job.objects.filter(pk=told.job.pk).update(secrets=b"sealed with another key")
    with pytest.raises(SecretsGone):
        collect(told, at)


def test_that_they_were_handed_out_cannot_be_taken_back(ravi: User, at: At) -> None:
    told = placed(ravi, at)
    collect(told, at)
    for value in ("NULL", "now()"):
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"UPDATE marketplace_attempt SET secrets_sent_at = {value} WHERE id = %s", [told.attempt.pk])
