"""A host becomes a machine: with a good token, once, however often it asks; any other way nothing moves."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client

from accounts.models import User
from agent_protocol.messages import Host
from core import clock
from core.errors import Conflict, DomainError, Unauthorized
from core.valkey import valkey
from providers import services
from providers.models import EnrolmentToken, Machine, MachineCredential
from providers.selectors import machine_by_credential
from tests.agent_protocol.samples import ENROL_REQUEST
from tests.factories.cast import person
from tests.factories.providers import enrol, groups, provider_make


@pytest.fixture
def token(db: None, ada: User, olga: User) -> str:
    """A token for Ada's fleet of two machines."""
    provider = provider_make(ada, reviewer=olga, gpus=groups(("l4-24gb", 2)))
    return services.enrolment_token_issue(provider=provider, actor=ada, now=clock.now())[1]


@pytest.fixture(autouse=True)
def no_limit_yet() -> None:
    valkey().delete("limit:enrol:127.0.0.1")


def post(body: dict[str, Any] | bytes) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Client().post("/agent/v1/enrol", data=data, content_type="application/json")


def request(token: str, **changes: Any) -> dict[str, Any]:
    return {**ENROL_REQUEST, "token": token, "simulated": True, **changes}


def rows() -> tuple[int, int, int]:
    left = sum(EnrolmentToken.objects.values_list("uses_left", flat=True))
    return Machine.objects.count(), MachineCredential.objects.count(), left


def test_a_host_enrols(token: str) -> None:
    answer = post(request(token))
    assert answer.status_code == 201
    machine = Machine.objects.get()
    assert answer.json()["machine_id"] == str(machine.pk)
    assert (machine.status, machine.name, machine.country) == ("pending_confirmation", "rack-1", "DE")
    assert machine_by_credential(ENROL_REQUEST["credential"]).pk == machine.pk
    assert EnrolmentToken.objects.order_by("-created_at")[0].uses_left == 1


def test_asking_again_gives_the_same_machine(token: str) -> None:
    first, again = post(request(token)), post(request(token))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["machine_id"] == again.json()["machine_id"]
    assert rows()[:2] == (1, 1)


def test_asking_again_works_when_the_token_is_used_up_and_expired(token: str) -> None:
    first = post(request(token))
    EnrolmentToken.objects.update(uses_left=0, revoked_at=clock.now())
    assert post(request(token)).json()["machine_id"] == first.json()["machine_id"]


def spoil(name: str) -> None:
    token = EnrolmentToken.objects.order_by("-created_at")[0]
    if name == "token_expired":  # expires_at is frozen by a law, so the clock has to say it
        return
    changes = {"token_used_up": {"uses_left": 0}, "token_revoked": {"revoked_at": clock.now()}}[name]
    EnrolmentToken.objects.filter(pk=token.pk).update(**changes)


@pytest.mark.parametrize("code", ["token_expired", "token_used_up", "token_revoked"])
def test_a_dead_token_says_why_and_nothing_moves(token: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(code)
    if code == "token_expired":
        late = clock.now() + timedelta(days=14)
        monkeypatch.setattr("providers.api.agent.clock.now", lambda: late)
    before = rows()
    answer = post(request(token))
    assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert set(answer.json()) == {"code", "message", "fields", "request_id"}
    assert rows() == before


def test_an_unknown_token_is_refused(token: str) -> None:
    before = rows()
    answer = post(request("gpxe_" + "x" * 43))
    assert (answer.status_code, answer.json()["code"]) == (401, "token_unknown") and rows() == before


def test_another_providers_token_does_not_open_a_known_key(token: str, ravi: User, olga: User) -> None:
    post(request(token))
    foreign = services.enrolment_token_issue(provider=provider_make(ravi, reviewer=olga), actor=ravi, now=clock.now())[
        1
    ]
    before = rows()
    answer = post(request(foreign))
    assert (answer.status_code, answer.json()["code"]) == (409, "key_foreign") and rows() == before


def test_the_same_key_with_another_credential_is_refused(token: str) -> None:
    post(request(token))
    before = rows()
    answer = post(request(token, credential="gpxa_" + "B" * 43))
    assert (answer.status_code, answer.json()["code"]) == (409, "key_foreign") and rows() == before


def test_a_credential_that_another_machine_has_is_refused(token: str) -> None:
    post(request(token))
    before = rows()
    answer = post(request(token, idempotency_key=str(uuid4())))
    assert (answer.status_code, answer.json()["code"]) == (409, "key_foreign") and rows() == before


def test_a_suspended_providers_token_is_closed(token: str, olga: User) -> None:
    provider = EnrolmentToken.objects.all()[0].provider
    services.provider_suspend(provider=provider, actor=olga, reason="Checks.", now=clock.now())
    before = rows()
    assert post(request(token)).json()["code"] == "token_revoked" and rows() == before


def test_simulated_hosts_are_refused_outside_demo_mode(token: str, settings: Any) -> None:
    settings.DEMO = False
    before = rows()
    answer = post(request(token))
    assert (answer.status_code, answer.json()["code"]) == (403, "simulated_refused") and rows() == before
    assert post(request(token, simulated=False)).status_code == 201


def test_an_old_agent_is_told_to_upgrade(token: str) -> None:
    answer = post(request(token, agent_version="0.0.9"))
    assert (answer.status_code, answer.json()["code"]) == (426, "upgrade") and rows()[0] == 0


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("body", b"{"),
        ("body", b"\xff"),
        ("body", b'{"protocol": NaN}'),
        ("body", b"[]"),
        ("body", b" " * (1024 * 1024 + 1)),
        ("token", {key: value for key, value in ENROL_REQUEST.items() if key != "token"}),
        ("protocol", ENROL_REQUEST | {"protocol": 2}),
        ("credential", ENROL_REQUEST | {"credential": "short"}),
        ("idempotency_key", ENROL_REQUEST | {"idempotency_key": "1"}),
        ("simulated", ENROL_REQUEST | {"simulated": "no"}),
        ("host.cpu_count", ENROL_REQUEST | {"host": {**ENROL_REQUEST["host"], "cpu_count": -1}}),
        ("surprise", ENROL_REQUEST | {"surprise": 1}),
    ],
)
def test_a_malformed_request_names_the_field(db: None, field: str, body: Any) -> None:
    answer = post(body)
    assert answer.status_code == 400 and list(answer.json()["fields"]) == [field]
    assert answer.json()["code"] == "invalid" and Machine.objects.count() == 0


def test_enrolments_are_rate_limited(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("providers.api.agent.ENROLMENTS_PER_MINUTE", 1)
    assert post(request(token)).status_code == 201
    answer = post(request(token))
    body = answer.json()
    assert (answer.status_code, body["code"]) == (429, "slow_down")
    assert 1 <= body["retry_after_s"] <= 60 and answer["Retry-After"] == str(body["retry_after_s"])
    assert rows()[0] == 1


def test_a_get_is_not_an_enrolment(client: Client) -> None:
    assert client.get("/agent/v1/enrol").status_code == 405


def test_a_new_token_replaces_the_open_one(token: str) -> None:
    provider = EnrolmentToken.objects.all()[0].provider
    enrol(provider, token=token)
    _row, fresh = services.enrolment_token_issue(provider=provider, actor="test", now=clock.now())
    assert [row.uses for row in EnrolmentToken.objects.filter(revoked_at__isnull=True)] == [1]
    with pytest.raises(Unauthorized) as refused:
        enrol(provider, token=token)
    assert refused.value.code == "token_revoked"
    enrol(provider, token=fresh)
    with pytest.raises(Conflict) as full:
        services.enrolment_token_issue(provider=provider, actor="test", now=clock.now())
    assert full.value.code == "fleet_full"


def test_a_retired_machine_makes_room_and_stays_away(token: str) -> None:
    provider = EnrolmentToken.objects.all()[0].provider
    key = uuid4()
    machine, credential, _token = enrol(provider, token=token, key=key)
    enrol(provider, token=token)
    services.machine_retire(machine=machine, actor="test", now=clock.now())
    row, _secret = services.enrolment_token_issue(provider=provider, actor="test", now=clock.now())
    assert row.uses == 1
    with pytest.raises(Conflict) as gone:
        services.machine_enrol(
            token=token,
            key=key,
            credential_hash=b"x" * 32,
            boot_id="b",
            agent_version="0.1.0",
            simulated=True,
            host=machine_host(),
            now=clock.now(),
        )
    assert gone.value.code == "machine_gone"
    with pytest.raises(Unauthorized) as revoked:
        machine_by_credential(credential)
    assert revoked.value.code == "revoked"


def machine_host() -> Host:
    return Host.parse(ENROL_REQUEST["host"])


def _committed_token(uses: int) -> tuple[Any, str]:
    ada, olga = person("Ada"), person("Olga", is_staff=True)
    provider = provider_make(ada, reviewer=olga, gpus=groups(("l4-24gb", uses)))
    return provider, services.enrolment_token_issue(provider=provider, actor="test", now=clock.now())[1]


def _in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    gate = Barrier(count)

    def run(number: int) -> Any:
        try:
            gate.wait(60)
            return work(number)
        except DomainError as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_four_hosts_share_one_use(committed_db: str) -> None:
    provider, token = _committed_token(1)

    gate = Barrier(4)

    def without_the_lock(_number: int) -> str:
        """The control: read how many are left, then take one, as if nobody else were there."""
        row = EnrolmentToken.objects.get(revoked_at__isnull=True)
        gate.wait(60)
        if row.uses_left < 1:
            return "token_used_up"
        EnrolmentToken.objects.filter(pk=row.pk).update(uses_left=row.uses_left - 1)
        return "enrolled"

    assert _in_threads(4, without_the_lock) == ["enrolled"] * 4
    EnrolmentToken.objects.filter(revoked_at__isnull=True).update(uses_left=F("uses"))

    outcomes = _in_threads(4, lambda _number: enrol(provider, token=token)[0].pk)
    assert sorted(map(str, outcomes)).count("token_used_up") == 3
    assert Machine.objects.count() == 1 and EnrolmentToken.objects.get(revoked_at__isnull=True).uses_left == 0


def test_one_host_asking_four_times_at_once_is_one_machine(committed_db: str) -> None:
    _provider, token = _committed_token(4)
    key = uuid4()

    def ask(_number: int) -> UUID:
        return services.machine_enrol(
            token=token,
            key=key,
            credential_hash=b"c" * 32,
            boot_id="b",
            agent_version="0.1.0",
            simulated=True,
            host=machine_host(),
            now=clock.now(),
        ).machine.pk

    assert len(set(_in_threads(4, ask))) == 1
    assert Machine.objects.count() == 1 and EnrolmentToken.objects.get(revoked_at__isnull=True).uses_left == 3


def test_a_revocation_is_heard_by_a_process_that_remembers(committed_db: str) -> None:
    provider, token = _committed_token(1)
    machine, credential, _token = enrol(provider, token=token)
    assert machine_by_credential(credential).pk == machine.pk
    assert machine_by_credential(credential) is machine_by_credential(credential)  # remembered
    services.machine_revoke(machine=machine, actor="test", reason="Stolen.", now=clock.now())
    with pytest.raises(Unauthorized) as refused:
        machine_by_credential(credential)
    assert refused.value.code == "revoked"
