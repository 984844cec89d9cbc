"""Submitting a job: what is refused names its field and leaves nothing behind."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from accounts.models import Party, User
from accounts.selectors import party_of
from agent_protocol.messages import AttemptPlan
from billing.selectors import balance_of
from core.errors import Conflict, Denied, DomainError, InsufficientFunds, Invalid
from marketplace.jobsecrets import job_unseal
from marketplace.models import Job
from marketplace.selectors import plan_complete
from marketplace.services import job_rerun, rate_set
from tests.factories.billing import funded
from tests.factories.marketplace import job_new, listing_new, provider_of_user, story
from tests.marketplace.conftest import At

pytestmark = pytest.mark.django_db


def refused(kind: type[DomainError], customer: User, **options: Any) -> DomainError:
    """The refusal, after which nothing has moved."""
    before = balance_of(party_of(customer)), Job.objects.count()
    with pytest.raises(kind) as refusal:
        job_new(customer, **options)
    assert (balance_of(party_of(customer)), Job.objects.count()) == before
    return refusal.value


def test_a_job_waits_in_the_queue_and_reserves_nothing(ravi: User) -> None:
    funded(ravi, 5_000_000)
    job = job_new(ravi, command=("echo", "hi"), environment={"A": "b"})
    assert (job.status, job.image) == ("queued", "docker.io/library/python:3.12")
    assert balance_of(party_of(ravi)).held_micro == 0


def test_without_an_hours_money_it_is_refused(ravi: User) -> None:
    funded(ravi, 1_999_999)
    error = refused(InsufficientFunds, ravi, max_rate_micro=1_000_000, gpu_count=2)
    assert error.fields == {"balance": ["Found 1.999999 USDC; needed: 2.00 USDC."]}


def test_more_gpus_than_any_machine_has_are_refused_at_once(ravi: User) -> None:
    listing_new(gpus=2)
    funded(ravi, 100_000_000)
    error = refused(Invalid, ravi, gpu_count=3)
    assert error.fields == {"gpu_count": ["Found 3; allowed: 1 to 2: the largest machine offered has 2."]}
    assert refused(Invalid, ravi, gpu_count=33).fields.keys() == {"gpu_count"}


def test_on_an_empty_market_one_may_wait(ravi: User) -> None:
    funded(ravi, 100_000_000)
    assert job_new(ravi, gpu_count=8).status == "queued"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"model_slug": "gtx-750"}, "gpu_model"),
        ({"region": "mars"}, "region"),
        ({"country": "XX"}, "country"),
        ({"image": "localhost/x"}, "image"),
        ({"listing_id": uuid4()}, "listing"),
    ],
)
def test_what_does_not_exist_is_named(ravi: User, options: dict[str, Any], field: str) -> None:
    funded(ravi, 100_000_000)
    assert refused(Invalid, ravi, **options).fields.keys() == {field}


def test_a_chosen_listing_that_became_dearer_is_refused(ravi: User, at: At) -> None:
    listing = listing_new(rate_micro=400_000)
    funded(ravi, 100_000_000)
    rate_set(
        provider=listing.provider,
        gpu_model=listing.gpu_model,
        machine=listing.machine,
        rate_micro=500_000,
        actor=None,
        now=at(3600),
    )
    error = refused(Conflict, ravi, listing_id=listing.pk, max_rate_micro=400_000)
    assert error.code == "rate_changed"
    assert error.fields.keys() == {"max_rate"}


def test_a_chosen_listing_has_only_so_many_gpus(ravi: User) -> None:
    listing = listing_new(gpus=1)
    listing_new(gpus=4)
    funded(ravi, 100_000_000)
    assert refused(Invalid, ravi, listing_id=listing.pk, gpu_count=2).fields.keys() == {"gpu_count"}


def test_nobody_rents_from_himself(ada: User) -> None:
    listing = listing_new(provider_of_user(ada))
    funded(ada, 100_000_000)
    assert refused(Invalid, ada, listing_id=listing.pk).fields.keys() == {"listing"}


def test_a_suspended_customer_starts_nothing(ravi: User) -> None:
    funded(ravi, 100_000_000)
    Party.objects.filter(pk=party_of(ravi).pk).update(status="suspended")
    refused(Denied, ravi)


PASSWORD = "correct-horse-4711"


def rows_holding(secret: str) -> list[str]:
    """Tables in which it stands, as text or as bytes."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            # The names come from the database itself.
            cursor.execute(
                f'SELECT count(*) FROM "{table}" AS t WHERE t::text LIKE %s OR t::text LIKE %s',
                [f"%{secret}%", f"%{secret.encode().hex()}%"],
            )
            if cursor.fetchone()[0]:
                found.append(table)
    return found


class TestSecrets:
    def test_they_are_sealed_are_in_no_plan_and_vanish_with_the_job(self, ravi: User, at: At) -> None:
        told = story(
            ravi,
            now=at(0),
            image="ghcr.io/ravi/x:1",
            environment={"OPEN": "1"},
            secrets={"TOKEN": PASSWORD},
            registry_username="ravi",
            registry_password=PASSWORD,
        )
        assert told.job.secrets is not None
        assert rows_holding(PASSWORD) == []
        body = told.agent.plan()[told.attempt.pk]
        (complete,) = plan_complete([{"kind": "attempt", "key": str(told.attempt.pk), "body": body}])
        plan = AttemptPlan.parse(complete["body"])
        assert (plan.environment, plan.secrets, plan.private_image) == ({"OPEN": "1"}, True, True)
        assert plan.boot_id == told.agent.machine.boot_id
        assert PASSWORD not in str(complete)
        told.agent.end(told.attempt, at=at(20), elapsed=10)
        assert told.reload().job.secrets is None
        assert (told.job.private_image, told.job.with_secrets) == (True, True)

    @pytest.mark.parametrize(
        ("options", "flags"),
        [
            ({}, (False, False)),
            ({"secrets": {"TOKEN": "x"}}, (True, False)),
            ({"registry_username": "ravi", "registry_password": "x"}, (True, True)),
        ],
    )
    def test_the_plan_says_what_there_is_to_collect(
        self, ravi: User, at: At, options: dict[str, Any], flags: tuple[bool, bool]
    ) -> None:
        told = story(ravi, now=at(0), **options)
        plan = AttemptPlan.parse(told.agent.plan()[told.attempt.pk])
        assert (plan.secrets, plan.private_image) == flags

    def test_the_plan_says_what_has_started(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0))

        def started() -> bool | None:
            body = told.agent.plan()[told.attempt.pk]
            (complete,) = plan_complete([{"kind": "attempt", "key": str(told.attempt.pk), "body": body}])
            return AttemptPlan.parse(complete["body"]).started

        for second, state in enumerate(("pulling", "starting")):
            told.agent.observe(told.attempt, state, at=at(10 + second))
            assert not started()
        for second, state in enumerate(("running", "stopping")):
            told.agent.observe(told.attempt, state, at=at(20 + second), elapsed=1 + second)
            assert started()


class TestRerun:
    def test_the_same_job_again(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), command=("a", "b"), name="train")
        told.agent.end(told.attempt, at=at(20), elapsed=10)
        again = job_rerun(job=told.reload().job, actor=ravi, now=at(30))
        assert (again.rerun_of_id, again.command, again.name, again.image) == (
            told.job.pk,
            ["a", "b"],
            "train",
            told.job.image,
        )
        assert again.secrets is None

    def test_what_was_deleted_with_its_end_has_to_be_given_again(self, ravi: User, at: At) -> None:
        login = {"registry_username": "ravi", "registry_password": PASSWORD}
        told = story(ravi, now=at(0), image="ghcr.io/ravi/x:1", secrets={"A": "x"}, **login)
        told.agent.end(told.attempt, at=at(20), elapsed=10)
        job = told.reload().job
        for given, field in (
            ({}, "secrets"),
            ({"secrets": {}, **login}, "secrets"),
            ({"secrets": {"A": "x"}}, "registry_username"),
            ({"secrets": {"A": "x"}, "registry_username": "ravi"}, "registry_password"),
        ):
            with pytest.raises(Invalid) as refusal:
                job_rerun(job=job, actor=ravi, now=at(30), **given)  # type: ignore[arg-type]
            assert refusal.value.fields.keys() == {field}
        assert not Job.objects.filter(rerun_of=job).exists()
        again = job_rerun(job=job, actor=ravi, now=at(30), secrets={"A": "1"}, **login)
        assert again.secrets is not None
        assert job_unseal(bytes(again.secrets)).environment == {"A": "1"}
        assert (again.private_image, again.with_secrets) == (True, True)

    def test_only_an_ended_job_is_run_again(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0))
        with pytest.raises(Conflict):
            job_rerun(job=told.job, actor=ravi, now=at(1))
