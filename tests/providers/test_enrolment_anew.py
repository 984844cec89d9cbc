"""A machine that exists enrols anew: the same machine, one credential, and its owner confirms it again after a quarantine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from accounts.models import User
from core import clock
from core.errors import Conflict, Denied, Unauthorized
from core.ids import secret_hash, secret_new
from core.models import StatusEvent
from providers import services
from providers.models import EnrolmentToken, Machine, MachineCredential, Provider
from providers.selectors import credentials, machine_by_credential
from tests.factories.providers import HOST, enrol, gpus_of, machine_make, provider_make

SignedIn = Callable[[User], Client]


@pytest.fixture
def provider(db: None, ada: User, olga: User) -> Provider:
    return provider_make(ada, reviewer=olga)


def token_for(machine: Machine) -> str:
    return services.reenrolment_token_issue(machine=machine, actor="test", now=clock.now())[1]


def quarantined(provider: Provider) -> Machine:
    machine = machine_make(provider)
    return services.machine_quarantine(machine=machine, actor="guard", now=clock.now(), reason="two_sessions")


def opens(secret: str) -> str:
    credentials._forget_all()
    try:
        return str(machine_by_credential(secret).pk)
    except Unauthorized as error:
        return error.code


def test_it_is_the_same_machine_under_one_credential_and_asks_to_be_confirmed(provider: Provider) -> None:
    machine = quarantined(provider)
    copies = [secret_new("gpxa") for _ in range(2)]
    for copy in copies:
        MachineCredential.objects.create(machine=machine, secret_hash=secret_hash(copy), created_at=clock.now())
    gpus = [gpu.pk for gpu in gpus_of(machine)]
    host = replace(HOST, hostname="rack-1b")
    again, credential, _token = enrol(provider, token=token_for(machine), host=host, boot_id="boot-9")
    assert again.pk == machine.pk
    again.refresh_from_db()
    assert (again.status, again.boot_id, again.host["hostname"]) == ("pending_confirmation", "boot-9", "rack-1b")
    assert [gpu.pk for gpu in gpus_of(again)] == gpus
    assert (opens(credential), [opens(copy) for copy in copies]) == (str(machine.pk), ["revoked", "revoked"])
    assert Machine.objects.count() == 1
    moves = (
        StatusEvent.objects.filter(subject_id=machine.pk, field="status").order_by("id").values_list("new", flat=True)
    )
    assert list(moves) == ["active", "quarantined", "pending_confirmation"]


def test_one_that_works_goes_on_working(provider: Provider) -> None:
    machine = machine_make(provider)
    enrol(provider, token=token_for(machine))
    machine.refresh_from_db()
    assert machine.status == "active"


def test_asking_again_after_a_lost_answer_is_one_enrolment(provider: Provider) -> None:
    machine, key, credential = machine_make(provider), uuid4(), secret_new("gpxa")
    token = token_for(machine)
    request: dict[str, Any] = {
        "token": token,
        "key": key,
        "credential_hash": secret_hash(credential),
        "boot_id": "b",
        "agent_version": "0.1.0",
        "simulated": True,
        "host": HOST,
        "now": clock.now(),
    }
    assert services.machine_enrol(**request) == (machine, True)
    assert services.machine_enrol(**request) == (machine, False)
    with pytest.raises(Unauthorized) as used:
        services.machine_enrol(**request | {"key": uuid4(), "credential_hash": secret_hash(secret_new("gpxa"))})
    assert used.value.code == "token_used_up"
    assert opens(credential) == str(machine.pk)


def test_what_cannot_be_is_refused_and_nothing_moves(provider: Provider) -> None:
    machine = machine_make(provider)
    before = list(MachineCredential.objects.values())
    with pytest.raises(Denied):
        enrol(provider, token=token_for(machine), simulated=False)
    old = token_for(machine)
    newer = token_for(machine)
    with pytest.raises(Unauthorized) as replaced:
        enrol(provider, token=old)
    assert replaced.value.code == "token_revoked"
    with pytest.raises(Unauthorized) as late:
        enrol(provider, token=newer, now=clock.now() + timedelta(days=1, seconds=1))
    assert late.value.code == "token_expired"
    services.machine_retire(machine=machine, actor="test", now=clock.now())
    with pytest.raises(Conflict):
        enrol(provider, token=newer)
    with pytest.raises(Conflict):
        token_for(machine)
    assert [row["secret_hash"] for row in MachineCredential.objects.values()] == [row["secret_hash"] for row in before]


def test_it_takes_no_place_of_a_new_machine_and_a_new_token_does_not_close_it(provider: Provider) -> None:
    machine = machine_make(provider)
    token = token_for(machine)
    _row, new = services.enrolment_token_issue(provider=provider, actor="test", now=clock.now())
    enrol(provider, token=token)
    enrol(provider, token=new)
    assert Machine.objects.count() == 2
    assert EnrolmentToken.objects.get(machine=machine).uses_left == 0


def test_the_owner_finds_it_on_the_machines_page(provider: Provider, ada: User, eve: User, signed_in: SignedIn) -> None:
    machine = quarantined(provider)
    client, where = signed_in(ada), f"/provider/machines/{machine.pk}/"
    assert "Enrol anew" in client.get(where).content.decode()
    assert signed_in(eve).post(f"{where}enrol-anew/").status_code == 404
    answer = client.post(f"{where}enrol-anew/")
    assert answer["Cache-Control"] == "no-store"
    token = answer.content.decode().split("GPUNEX_TOKEN=")[1].split()[0]
    assert token not in client.get(where).content.decode()
    enrol(provider, token=token)
    machine.refresh_from_db()
    assert machine.status == "pending_confirmation"
