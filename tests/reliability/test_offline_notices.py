"""One fault, one letter: to each provider about its own machines, once, and once more when they are back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import QuerySet

from accounts.models import Notification, User
from accounts.selectors import party_of
from providers.models import Machine, Provider
from providers.services import machine_drain, machine_retire, schedule_set
from reliability import services
from reliability.models import OfflineNotice, OfflineNoticeMachine
from reliability.services import notices
from tests.factories.benchmarks import machine_made, provider_made
from tests.factories.cast import person
from tests.factories.concurrency import together
from tests.factories.marketplace import beat
from tests.factories.reliability import fall_silent

T0 = datetime(2026, 6, 1, 12, tzinfo=UTC)  # a Monday
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def fleet_of(provider: Provider, number: int) -> list[Machine]:
    machines = [machine_made(provider, now=T0 - HOUR) for _machine in range(number)]
    for place, machine in enumerate(machines):
        Machine.objects.filter(pk=machine.pk).update(name=f"rack-{place:02}")
        beat(machine, T0 - MINUTE)
    return machines


@pytest.fixture
def provider(db: None, ada: User) -> Provider:
    return provider_made(ada, now=T0 - HOUR)


def send(at: datetime) -> int:
    return services.offline_notices_send(now=at)


def written() -> QuerySet[Notification]:
    return Notification.objects.filter(kind__startswith="machines_")


def letters(user: User) -> list[str]:
    return list(written().filter(user=user).order_by("pk").values_list("subject", flat=True))


def owner(provider: Provider) -> User:
    return provider.party.members.get().user


def test_twelve_machines_that_fail_together_make_one_letter_naming_all(provider: Provider) -> None:
    site = fleet_of(provider, 12)
    for place, machine in enumerate(site):
        fall_silent(machine, at=T0 + place * 5 * SECOND)
    assert send(T0 + MINUTE) == 0, "it waits for the others"
    assert send(T0 + 2 * MINUTE) == 1
    (letter,) = written()
    assert (letter.subject, letter.url) == ("12 of your machines are offline", "/provider/machines/?state=offline")
    assert all(f"- rack-{place:02}\n" in letter.body for place in range(12))
    assert "the site's power, router or uplink" in letter.body
    for later in (2, 3, 60, 600):
        assert send(T0 + later * MINUTE) == 0
    assert letter.mail is not None and OfflineNotice.objects.count() == 1


def test_a_letter_names_twenty_and_counts_the_rest(provider: Provider) -> None:
    fall_silent(*fleet_of(provider, 23), at=T0)
    send(T0 + 2 * MINUTE)
    body = written().get().body
    assert body.count("- rack-") == 20 and "and 3 more" in body


def test_one_machine_is_named_in_the_subject_and_linked(provider: Provider) -> None:
    (machine,) = fleet_of(provider, 1)
    fall_silent(machine, at=T0)
    send(T0 + 2 * MINUTE)
    letter = written().get()
    assert (letter.subject, letter.url) == ("rack-00 is offline", f"/provider/machines/{machine.pk}/")


def test_each_provider_is_told_of_its_own(provider: Provider) -> None:
    other = provider_made(person("Olaf"), now=T0 - HOUR)
    fall_silent(*fleet_of(provider, 2), *fleet_of(other, 1), at=T0)
    assert send(T0 + 2 * MINUTE) == 2
    assert letters(owner(provider)) == ["2 of your machines are offline"]
    assert letters(owner(other)) == ["rack-00 is offline"]


def test_a_return_is_told_once_and_says_who_is_still_away(provider: Provider) -> None:
    site = fleet_of(provider, 3)
    fall_silent(*site, at=T0)
    send(T0 + 2 * MINUTE)
    for machine in site[:2]:
        beat(machine, T0 + 30 * MINUTE)
    assert send(T0 + 31 * MINUTE) == 0
    assert [send(T0 + 32 * MINUTE + number * MINUTE) for number in range(3)] == [1, 0, 0]
    assert letters(owner(provider))[1:] == ["2 of your machines are back"]
    assert "1 machine is still away: rack-02" in written().latest("pk").body
    beat(site[2], T0 + 2 * HOUR)
    send(T0 + 3 * HOUR)
    assert letters(owner(provider))[2:] == ["rack-02 is back"]
    assert not OfflineNoticeMachine.objects.filter(closed_at=None).exists()


def test_a_silence_shorter_than_the_wait_is_not_worth_a_letter(provider: Provider) -> None:
    (machine,) = fleet_of(provider, 1)
    fall_silent(machine, at=T0)
    beat(machine, T0 + MINUTE)
    assert send(T0 + 3 * MINUTE) == 0 and not written().exists()


def test_a_flapping_machine_is_told_again_only_when_it_stays_away(provider: Provider) -> None:
    (machine,) = fleet_of(provider, 1)
    for blink in range(4):
        start = T0 + blink * 8 * MINUTE
        fall_silent(machine, at=start)
        send(start + 2 * MINUTE)
        beat(machine, start + 3 * MINUTE)
        send(start + 6 * MINUTE)
    assert letters(owner(provider)) == ["rack-00 is offline", "rack-00 is back"]
    fall_silent(machine, at=T0 + 40 * MINUTE)
    assert [send(T0 + minutes * MINUTE) for minutes in (42, 54, 55)] == [0, 0, 1]


@pytest.mark.parametrize("verb", [machine_drain, machine_retire])
def test_what_its_owner_takes_away_is_not_missed(provider: Provider, verb: object) -> None:
    (machine,) = fleet_of(provider, 1)
    verb(machine=machine, actor=None, now=T0)  # type: ignore[operator]
    fall_silent(machine, at=T0)
    assert send(T0 + HOUR) == 0


def test_a_machine_that_is_retired_while_away_is_not_told_back(provider: Provider) -> None:
    (machine,) = fleet_of(provider, 1)
    fall_silent(machine, at=T0)
    send(T0 + 2 * MINUTE)
    machine_retire(machine=Machine.objects.get(pk=machine.pk), actor=None, now=T0 + HOUR)
    send(T0 + 2 * HOUR)
    assert letters(owner(provider)) == ["rack-00 is offline"]
    beat(machine, T0 + 3 * HOUR)
    assert send(T0 + 4 * HOUR) == 0


def test_outside_its_hours_nobody_misses_it_inside_it_is_missed_after_some_minutes(provider: Provider) -> None:
    (machine,) = fleet_of(provider, 1)
    hours = [{"days": [0, 1, 2, 3, 4, 5, 6], "start": "14:00", "end": "18:00"}]
    schedule_set(provider=provider, zone="Etc/UTC", always_on=False, windows=hours, actor=None, now=T0 - HOUR)
    fall_silent(machine, at=T0)
    found = [send(T0 + minutes * MINUTE) for minutes in (2, 60, 121, 129, 130, 131)]
    assert found == [0, 0, 0, 0, 1, 0]


def test_one_letter_that_cannot_be_written_keeps_back_nobody_elses(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = provider_made(person("Olaf"), now=T0 - HOUR)
    fall_silent(*fleet_of(provider, 1), *fleet_of(other, 1), at=T0)
    real, broken = notices.notification_send, party_of(owner(provider))

    def fails(**given: object) -> object:
        if given["party"] == broken:
            raise RuntimeError("no template")
        return real(**given)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(notices, "notification_send", fails)
        assert send(T0 + 2 * MINUTE) == 1
    assert letters(owner(other)) == ["rack-00 is offline"]
    assert send(T0 + 3 * MINUTE) == 1, "the failed one wrote nothing, so it is tried again"
    assert letters(owner(provider)) == ["rack-00 is offline"]


def test_ten_workers_write_one_letter(committed_db: str, ada: User) -> None:
    provider = provider_made(ada, now=T0 - HOUR)
    fall_silent(*fleet_of(provider, 3), at=T0)
    results = together(10, lambda _number: send(T0 + 2 * MINUTE))
    assert sorted(results) == [0] * 9 + [1]
    assert written().count() == 1
