"""The life of a machine, its plan, and the laws that hold whatever the services do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.models import User
from core import clock
from core.errors import Conflict, Invalid, MoveNotAllowed, NotFound, StaleState
from core.models import StatusEvent
from core.valkey import valkey
from providers import services
from providers.models import EnrolmentToken, GpuClaim, Machine, MachineCredential, PlanItem, Provider, Schedule
from providers.selectors import machine_of, machines_of, plan_of, plan_version_of
from tests.factories.cast import person
from tests.factories.providers import GROUP, enrol, gpus_of, groups, machine_make, provider_make


@pytest.fixture
def provider(db: None, ada: User, olga: User) -> Provider:
    return provider_make(ada, reviewer=olga)


VERBS: dict[str, Any] = {
    "confirm": services.machine_confirm,
    "drain": services.machine_drain,
    "resume": services.machine_resume,
    "quarantine": lambda **given: services.machine_quarantine(reason="Two sessions.", **given),
    "release": lambda **given: services.machine_unquarantine(reason="Explained.", **given),
    "retire": services.machine_retire,
    "revoke": lambda **given: services.machine_revoke(reason="Stolen.", **given),
}


def do(verb: str, machine: Machine) -> None:
    VERBS[verb](machine=machine, actor="test", now=clock.now())


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("confirm", "active"),
        ("confirm drain", "draining"),
        ("confirm drain resume", "active"),
        ("confirm quarantine release", "active"),
        ("confirm drain retire", "retired"),
        ("retire", "retired"),
        ("revoke", "revoked"),
        ("confirm quarantine revoke", "revoked"),
    ],
)
def test_a_machine_moves(provider: Provider, path: str, status: str) -> None:
    machine = machine_make(provider, confirm=False)
    for verb in path.split():
        do(verb, machine)
    machine.refresh_from_db()
    assert machine.status == status
    assert StatusEvent.objects.filter(subject_id=machine.pk).count() == len(path.split())


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        ("", "drain"),
        ("", "resume"),
        ("", "release"),
        ("confirm", "confirm"),
        ("confirm", "resume"),
        ("confirm quarantine", "resume"),
        ("retire", "confirm"),
        ("revoke", "retire"),
        ("revoke", "release"),
    ],
)
def test_a_move_outside_the_table_is_refused(provider: Provider, path: str, verb: str) -> None:
    machine = machine_make(provider, confirm=False)
    for earlier in path.split():
        do(earlier, machine)
    before = (machine.status, StatusEvent.objects.count())
    with pytest.raises(MoveNotAllowed):
        do(verb, machine)
    machine.refresh_from_db()
    assert (machine.status, StatusEvent.objects.count()) == before


def test_somebody_was_there_first(provider: Provider) -> None:
    mine, theirs = machine_make(provider), Machine.objects.get()
    do("drain", theirs)
    with pytest.raises(StaleState):
        do("retire", mine)


def test_a_machine_with_a_running_job_is_not_retired(provider: Provider) -> None:
    machine, holder = machine_make(provider), uuid4()
    services.gpus_claim(gpu_ids=[gpus_of(machine)[0].pk], kind="job", holder=holder, now=clock.now())
    do("drain", machine)
    with pytest.raises(Conflict) as refused:
        do("retire", machine)
    assert refused.value.code == "jobs_running"
    assert Machine.objects.get().status == "draining" and machine.status == "draining"
    assert MachineCredential.objects.get().revoked_at is None
    services.gpus_release(holder=holder, now=clock.now())
    do("retire", machine)


def test_the_owner_says_where_a_machine_stands(db: None, ada: User, olga: User) -> None:
    two = (*groups(("l4-24gb", 4)), *groups(("l4-24gb", 2), country="JP", city="Tokyo"))
    provider = provider_make(ada, reviewer=olga, gpus=two)
    machine = machine_make(provider, confirm=False)
    with pytest.raises(Invalid) as refused:
        services.machine_confirm(machine=machine, actor=ada, country="US", now=clock.now())
    assert "DE, JP" in refused.value.fields["country"][0]
    services.machine_confirm(machine=machine, actor=ada, country="JP", now=clock.now())
    machine.refresh_from_db()
    assert (machine.country, machine.region, machine.status) == ("JP", "east-asia", "active")


def test_a_fleet_is_its_owners(provider: Provider, ravi: User, olga: User) -> None:
    machine, other = machine_make(provider), provider_make(ravi, reviewer=olga)
    assert machine_of(provider, machine.pk) == machine
    for stranger in (other, None):
        with pytest.raises(NotFound):
            machine_of(stranger, machine.pk)
    do("retire", machine)
    assert list(machines_of(provider)) == [] and machine_of(provider, machine.pk) == machine


def test_a_fleet_costs_the_same_queries_for_one_machine_and_for_many(
    provider: Provider, django_assert_num_queries: Any
) -> None:
    for _number in range(3):
        machine_make(provider)
    with django_assert_num_queries(2):
        assert [len(machine.gpus.all()) for machine in machines_of(provider)] == [1, 1, 1]


def test_the_plan_changes_with_its_version(provider: Provider) -> None:
    machine, key, now = machine_make(provider), uuid4(), clock.now()
    item = {"machine_id": machine.pk, "kind": "benchmark", "key": key, "now": now}
    assert plan_of(machine.pk) == (0, [])
    services.plan_put(**item, body={"run_id": str(key)})
    assert plan_of(machine.pk) == (1, [{"kind": "benchmark", "key": str(key), "body": {"run_id": str(key)}}])
    services.plan_put(**item, body={"run_id": str(key)})  # the same again
    assert plan_version_of(machine.pk) == 1
    services.plan_put(**item, body={"run_id": "other"})
    assert plan_of(machine.pk)[0] == 2
    services.plan_remove(**item)
    services.plan_remove(**item)
    assert plan_of(machine.pk) == (3, [])


def test_there_is_no_plan_without_a_machine(db: None) -> None:
    for ask in (plan_of, plan_version_of):
        with pytest.raises(NotFound):
            ask(uuid4())
    with pytest.raises(NotFound):
        services.plan_put(machine_id=uuid4(), kind="attempt", key=uuid4(), body={}, now=clock.now())
    assert not PlanItem.objects.exists()


def test_a_plan_change_rings_after_commit_and_a_revocation_says_so(committed_db: str) -> None:
    provider = provider_make(person("Ada"), reviewer=person("Olga", is_staff=True))
    machine, now = machine_make(provider), clock.now()
    with valkey().pubsub(ignore_subscribe_messages=True) as bell:
        bell.subscribe(f"bell:machine-{machine.pk.hex}")
        bell.get_message(timeout=60)  # the subscription itself
        with pytest.raises(RuntimeError), transaction.atomic():
            services.plan_put(machine_id=machine.pk, kind="attempt", key=uuid4(), body={}, now=now)
            raise RuntimeError("rolled back: no ring")
        services.plan_put(machine_id=machine.pk, kind="attempt", key=uuid4(), body={}, now=now)
        services.machine_revoke(machine=machine, actor="test", reason="Stolen.", now=now)
        heard = [message["data"] for message in (bell.get_message(timeout=60) for _number in range(2)) if message]
    assert heard == ["ring", "revoke"]


def test_eight_writers_of_one_plan_lose_no_version(committed_db: str) -> None:
    machine = machine_make(provider_make(person("Ada"), reviewer=person("Olga", is_staff=True)))

    def put(_number: int) -> None:
        try:
            services.plan_put(machine_id=machine.pk, kind="attempt", key=uuid4(), body={}, now=clock.now())
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(8)))
    version, items = plan_of(machine.pk)
    assert (version, len(items)) == (8, 8)


LAWS = [
    ("a token's secret stays", "UPDATE providers_enrolmenttoken SET secret_hash = 'x'"),
    ("a token's expiry stays", "UPDATE providers_enrolmenttoken SET expires_at = expires_at + interval '1 day'"),
    ("a token has no more uses than it was given", "UPDATE providers_enrolmenttoken SET uses_left = uses + 1"),
    ("a token is not used below nothing", "UPDATE providers_enrolmenttoken SET uses_left = -1"),
    ("a token is kept", "DELETE FROM providers_enrolmenttoken"),
    ("a machine stays its owner's", "UPDATE providers_machine SET provider_id = gen_random_uuid()"),
    ("a simulated machine stays one", "UPDATE providers_machine SET simulated = NOT simulated"),
    ("a machine is kept", "DELETE FROM providers_machine"),
    ("a credential stays its machine's", "UPDATE providers_machinecredential SET machine_id = gen_random_uuid()"),
    ("a declared hour stays declared", "UPDATE providers_schedule SET windows = '[]', always_on = false"),
    ("an active card has a model", "UPDATE providers_gpu SET model_id = NULL"),
    ("an active card has no reason against it", "UPDATE providers_gpu SET reason = 'mig'"),
    ("an approved application has a tier", "UPDATE providers_application SET tier = ''"),
    ("a group has no zero cards", "UPDATE providers_applicationgpugroup SET quantity = 0"),
    ("a move is written once", "UPDATE core_statusevent SET reason = 'x'"),
    (
        "a schedule has one owner",
        "INSERT INTO providers_schedule (id, created_at, version, zone, always_on, windows, valid_from, scored_from)"
        " SELECT gen_random_uuid(), created_at, 9, zone, always_on, windows, valid_from, scored_from"
        " FROM providers_schedule",
    ),
    (
        "a card is active once",
        "INSERT INTO providers_gpu SELECT (jsonb_populate_record(gpu, jsonb_build_object('id', gen_random_uuid()))).*"
        " FROM providers_gpu gpu",
    ),
    (
        "a party has one application under way",
        "INSERT INTO providers_application SELECT (jsonb_populate_record(a,"
        " jsonb_build_object('id', gen_random_uuid(), 'status', n.status))).*"
        " FROM providers_application a, (VALUES ('draft'), ('submitted')) AS n (status)",
    ),
]


@pytest.mark.parametrize(("law", "statement"), LAWS, ids=[law for law, _statement in LAWS])
def test_the_database_refuses(provider: Provider, law: str, statement: str) -> None:
    machine_make(provider)
    before = [model.objects.count() for model in (EnrolmentToken, Machine, MachineCredential, Schedule, GpuClaim)]
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
        connection.check_constraints()
    counts = [model.objects.count() for model in (EnrolmentToken, Machine, MachineCredential, Schedule, GpuClaim)]
    assert counts == before


def test_two_machines_never_share_an_enrolment_key(provider: Provider) -> None:
    key = uuid4()
    _machine, _credential, token = enrol(provider, key=key)
    with pytest.raises(Conflict):
        enrol(provider, key=key, token=token)  # another credential
    assert Machine.objects.count() == 1 and GROUP.quantity == 8
