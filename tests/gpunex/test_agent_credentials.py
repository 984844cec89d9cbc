"""A machine's credential on the platform's side: changed with an overlap, on demand and by age; copies are locked out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from accounts.models import User
from core import clock
from core.ids import secret_hash, secret_new
from core.models import StatusEvent
from core.valkey import valkey
from gpunex.agent_guard import CHANGE_OVER, STRIKES
from gpunex.agent_heartbeats import BATCH
from gpunex.agent_sessions import MEMORY
from gpunex.agent_sync import CREDENTIAL_AGE
from providers.models import Machine, MachineCredential
from providers.selectors import credentials
from providers.services import machine_credential_rotate, machine_revoke
from tests.factories.marketplace import machine_new, provider_new, provider_of_user
from tests.gpunex.hosts import Host


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    MEMORY.forget(None)
    BATCH.flush()


@pytest.fixture
def host(db: None) -> Host:
    host = Host(machine_new(provider_new(), measured=False))
    host.sync()
    return host


def code(answer: object) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]  # type: ignore[attr-defined]


def ask(host: Host, secret: str, **options: str) -> object:
    return host.post("credential", {"credential": secret}, **options)  # type: ignore[arg-type]


def heard(host: Host) -> None:
    """What the bell would have told this process."""
    credentials._drop(host.machine.pk.hex)
    MEMORY.forget(host.machine.pk)


def test_a_fresh_credential_is_left_alone_and_an_old_one_changed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.sync().json()["rotate_credential"] is False
    later = clock.now() + CREDENTIAL_AGE
    monkeypatch.setattr("core.clock.now", lambda: later)
    heard(host)
    assert host.sync().json()["rotate_credential"] is True


def test_the_old_credential_works_until_the_new_one_was_used(host: Host) -> None:
    old, new = host.credential, secret_new("gpxa")
    machine_credential_rotate(machine=host.machine, actor="test", now=clock.now())
    heard(host)
    assert host.sync().json()["rotate_credential"] is True
    assert ask(host, new).status_code == 200  # type: ignore[attr-defined]
    assert ask(host, new).status_code == 200  # type: ignore[attr-defined]  # its answer was lost
    assert host.sync().status_code == 200
    assert host.events().status_code == 200
    host.credential = new
    # What the outbox sends meanwhile ends nothing; only a sync does.
    assert host.events().status_code == 200
    assert MachineCredential.objects.filter(machine=host.machine, replaced=True).count() == 0
    assert host.sync().json()["rotate_credential"] is False
    heard(host)
    assert code(host.post("sync", host.sync_body(), credential=old)) == (401, "credential_replaced")
    assert host.sync().status_code == 200
    events = StatusEvent.objects.filter(subject_id=host.machine.pk, field="credential").order_by("id")
    assert [event.new for event in events] == ["wanted", "changed"]


def test_an_announced_credential_that_was_lost_gives_way_to_the_next(host: Host) -> None:
    lost, kept = secret_new("gpxa"), secret_new("gpxa")
    assert ask(host, lost).status_code == 200  # type: ignore[attr-defined]
    assert ask(host, kept).status_code == 200  # type: ignore[attr-defined]
    heard(host)
    assert code(host.post("sync", host.sync_body(), credential=lost)) == (401, "credential_replaced")
    assert host.sync().status_code == 200
    assert MachineCredential.objects.get(secret_hash=secret_hash(kept)).revoked_at is None


def test_what_is_not_ones_own_to_take_is_refused_and_changes_nothing(host: Host) -> None:
    stranger = Host(machine_new(provider_new(), measured=False))
    before = list(MachineCredential.objects.order_by("pk").values())
    assert code(ask(host, stranger.credential)) == (409, "credential_foreign")
    assert code(ask(host, host.credential)) == (409, "credential_foreign")
    assert code(ask(host, "short")) == (400, "invalid")
    assert code(ask(host, secret_new("gpxa"), credential=secret_new("gpxa"))) == (401, "unauthorized")
    assert list(MachineCredential.objects.order_by("pk").values()) == before


def test_a_revoked_machine_changes_no_credential(host: Host) -> None:
    machine_revoke(machine=host.machine, actor="test", now=clock.now(), reason="stolen")
    heard(host)
    assert code(ask(host, secret_new("gpxa"))) == (401, "revoked")


def test_after_a_revocation_a_replaced_credential_is_revoked_too(host: Host) -> None:
    old, host_new = host.credential, secret_new("gpxa")
    ask(host, host_new)
    host.credential = host_new
    host.sync()
    machine_revoke(machine=host.machine, actor="test", now=clock.now(), reason="stolen")
    heard(host)
    # Its agent is to stop its jobs and leave, not to ask for ever.
    assert code(host.post("sync", host.sync_body(), credential=old)) == (401, "revoked")


def test_a_copy_that_goes_on_with_the_old_credential_quarantines_the_machine(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = host.credential, secret_new("gpxa")
    valkey().delete(f"agent:replaced:{host.machine.pk}")
    ask(host, new)
    host.credential = new
    host.sync()
    heard(host)
    for _ in range(STRIKES + 1):  # requests that were under way
        host.post("sync", host.sync_body(), credential=old)
    assert Machine.objects.get(pk=host.machine.pk).status == "active"
    later = clock.now() + CHANGE_OVER
    monkeypatch.setattr("core.clock.now", lambda: later)
    for _ in range(STRIKES):
        assert code(host.post("sync", host.sync_body(), credential=old)) == (401, "credential_replaced")
    machine = Machine.objects.get(pk=host.machine.pk)
    assert (machine.status, machine.status_reason) == ("quarantined", "two_sessions")


def test_the_owner_and_staff_may_order_it(db: None, ada: User, olga: User, signed_in: Callable[[User], Client]) -> None:
    machine = machine_new(provider_of_user(ada))
    assert signed_in(ada).post(f"/provider/machines/{machine.pk}/rotate/").status_code == 302
    machine.refresh_from_db()
    first = machine.rotate_wanted_at
    assert first is not None
    assert signed_in(olga).post(f"/admin/providers/machine/{machine.pk}/do/rotate/").status_code == 302
    machine.refresh_from_db()
    assert machine.rotate_wanted_at is not None
    assert machine.rotate_wanted_at > first


@pytest.mark.parametrize(("off_s", "told"), [(0, None), (29, None), (-29, None), (31, 31), (-3600, -3600)])
def test_a_clock_that_is_off_is_told_and_breaks_nothing(
    host: Host,
    off_s: int,
    told: int | None,
    django_assert_num_queries: Callable,  # type: ignore[type-arg]
) -> None:
    def sync() -> object:
        return host.sync(sent_at=(clock.now() - timedelta(seconds=off_s, microseconds=1)).isoformat())

    assert sync().status_code == 200  # type: ignore[attr-defined]
    host.machine.refresh_from_db()
    assert host.machine.clock_skew_s in ({told} if told is None else {told, told + 1, told - 1})
    assert (host.machine.status, host.machine.degraded) == ("active", [])
    with django_assert_num_queries(0):
        sync()
    host.sync()
    host.machine.refresh_from_db()
    assert host.machine.clock_skew_s is None


@pytest.mark.parametrize("sent_at", ["now", "2026-01-01T00:00:00", 7])
def test_an_instant_that_is_none_is_refused(host: Host, sent_at: object) -> None:
    answer = host.sync(sent_at=sent_at)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["sent_at"])
