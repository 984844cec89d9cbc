"""The fleet: found by state, label and name, a page at a time; one verb on many machines, each refusal with its reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from benchmarks.models import Run
from core import clock
from core.errors import Invalid
from core.ids import uuid7
from marketplace.selectors import FleetFilters, fleet_figures, fleet_page
from marketplace.selectors.machines import PAGE, STATES
from marketplace.views.fleet import STATE_LABELS
from providers.models import Machine, Provider
from providers.services import machine_drain, machine_label, machine_rename, machine_retire
from tests.factories.cast import person
from tests.factories.marketplace import listing_new, machine_new, provider_of_user
from tests.factories.reliability import fall_silent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clean_valkey")]
SignedIn = Callable[[User], Client]
FLEET = "/provider/machines/"


@pytest.fixture
def provider(ada: User) -> Provider:
    return provider_of_user(ada)


def named(provider: Provider, name: str, *labels: str, **options: Any) -> Machine:
    machine = machine_new(provider, measured=False, **options)
    machine_rename(machine=machine, name=name, actor=None, now=clock.now())
    machine_label(machine=machine, labels=labels, actor=None, now=clock.now())
    return machine


def names(provider: Provider, **filters: str) -> list[str]:
    return [row.machine.name for row in fleet_page(provider, FleetFilters(**filters)).rows]


def silent(*machines: Machine, minutes: int = 10) -> None:
    fall_silent(*machines, at=clock.now() - timedelta(minutes=minutes))


def test_every_state_has_its_word() -> None:
    assert set(STATE_LABELS) == {"", *STATES}


def test_machines_are_found_by_label_name_and_state(provider: Provider) -> None:
    berlin = named(provider, "berlin-1", "Berlin", "rack 4")
    named(provider, "berlin-2", "Berlin")
    paris = named(provider, "paris-1", "Paris", online=False)
    machine_drain(machine=Machine.objects.get(pk=berlin.pk), actor=None, now=clock.now())
    assert names(provider) == ["berlin-1", "berlin-2", "paris-1"]
    assert names(provider, label="Berlin") == ["berlin-1", "berlin-2"]
    assert names(provider, label="rack 4", state="draining") == ["berlin-1"]
    assert names(provider, name="PARIS") == ["paris-1"]
    assert names(provider, state="offline") == [paris.name]
    figures = fleet_figures(provider)
    assert figures.labels == [("Berlin", 2), ("Paris", 1), ("rack 4", 1)]
    assert (figures.machines, figures.gpus, figures.by_state["online"], figures.by_state["offline"]) == (3, 3, 2, 1)


def test_labels_are_the_owners_alone(provider: Provider) -> None:
    named(provider, "mine", "secret site")
    other = provider_of_user(person("Olaf"))
    assert fleet_figures(other).labels == [] and names(other, label="secret site") == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([" rack  4 ", "Rack 4", "", "berlin"], ["berlin", "rack 4"]),
        (["上海"], ["上海"]),
        ([str(number) for number in range(8)], [str(number) for number in range(8)]),
    ],
)
def test_labels_are_tidied(provider: Provider, given: list[str], kept: list[str]) -> None:
    machine = machine_new(provider, measured=False)
    machine_label(machine=machine, labels=given, actor=None, now=clock.now())
    assert Machine.objects.get(pk=machine.pk).labels == kept


@pytest.mark.parametrize("given", [["x" * 33], ["a\u202eb"], ["a\x00"], [str(number) for number in range(9)], ["a,b"]])
def test_a_label_that_is_refused_moves_nothing(provider: Provider, given: list[str]) -> None:
    machine = named(provider, "m", "kept")
    with pytest.raises(Invalid) as refusal:
        machine_label(machine=machine, labels=given, actor=None, now=clock.now())
    assert list(refusal.value.fields) == ["labels"]
    assert Machine.objects.get(pk=machine.pk).labels == ["kept"]


@pytest.mark.parametrize("name", ["", "   ", "x" * 65, "a\nb\x07"])
def test_a_name_that_is_refused_moves_nothing(provider: Provider, ada: User, signed_in: SignedIn, name: str) -> None:
    machine = named(provider, "old")
    page = signed_in(ada).post(f"{FLEET}{machine.pk}/describe/", {"name": name, "labels": "new"}, follow=True)
    assert "allowed: 1 to 64 printable characters" in page.content.decode()
    row = Machine.objects.get(pk=machine.pk)
    assert (row.name, row.labels) == ("old", [])


def test_name_and_labels_are_saved_on_the_machines_page(provider: Provider, ada: User, signed_in: SignedIn) -> None:
    machine = named(provider, "old")
    page = signed_in(ada).post(f"{FLEET}{machine.pk}/describe/", {"name": "new one", "labels": "a，b"}, follow=True)
    assert "new one" in page.content.decode()
    assert Machine.objects.get(pk=machine.pk).labels == ["a", "b"]


# -- Several at once --------------------------------------------------------------------------------------------------


def told(page: Any) -> list[str]:
    return [str(message) for message in page.context["messages"]]


def act(client: Client, action: str, *machines: Machine, **more: str) -> Any:
    data = {"machine": [str(machine.pk) for machine in machines], **more}
    return client.post(f"{FLEET}with-ticked/{action}/", data, follow=True)


def test_draining_many_refuses_each_for_its_reason_and_drains_the_rest(
    provider: Provider, ada: User, signed_in: SignedIn
) -> None:
    good = [named(provider, f"good-{number}") for number in range(2)]
    new = named(provider, "new", confirmed=False)
    gone = named(provider, "gone")
    machine_retire(machine=Machine.objects.get(pk=gone.pk), actor=None, now=clock.now())
    found = told(act(signed_in(ada), "drain", *good, new, gone))
    assert found[0] == "2 machines take no new jobs; running ones finish."
    assert [text.partition(":")[0] for text in found[1:]] == ["gone", "new"]
    assert all("cannot become draining" in text for text in found[1:])
    statuses = dict(Machine.objects.values_list("name", "status"))
    assert statuses == {"good-0": "draining", "good-1": "draining", "new": "pending_confirmation", "gone": "retired"}
    assert told(act(signed_in(ada), "resume", *good))[0] == "2 machines take jobs again."


def test_retesting_many_asks_for_runs_and_says_who_was_measured_just_now(
    provider: Provider, ada: User, signed_in: SignedIn
) -> None:
    first, second = named(provider, "first"), named(provider, "second")
    client = signed_in(ada)
    assert told(act(client, "retest", first)) == ["1 machine is measured again as soon as its GPUs are free."]
    found = told(act(client, "retest", first, second))
    assert found[0] == "1 machine is measured again as soon as its GPUs are free."
    assert found[1].startswith("first: ") and "already on its way" in found[1]
    assert Run.objects.filter(trigger="retest", status="requested").count() == 2


def test_a_label_is_added_to_many(provider: Provider, ada: User, signed_in: SignedIn) -> None:
    machines = [named(provider, "a", "old"), named(provider, "b")]
    assert told(act(signed_in(ada), "label", *machines, labels="site 2")) == ["2 machines have the label."]
    assert sorted(Machine.objects.values_list("labels", flat=True)) == [["old", "site 2"], ["site 2"]]
    assert "allowed: one or more labels" in told(act(signed_in(ada), "label", *machines, labels=" , "))[0]


@pytest.mark.parametrize("action", ["drain", "resume", "retest", "label"])
def test_with_somebody_elses_machine_among_them_nothing_is_done(
    provider: Provider, ada: User, signed_in: SignedIn, action: str
) -> None:
    mine, theirs = named(provider, "mine"), named(provider_of_user(person("Olaf")), "theirs")
    before = list(Machine.objects.order_by("pk").values_list("pk", "status", "labels")), Run.objects.count()
    assert act(signed_in(ada), action, mine, theirs, labels="x").status_code == 404
    assert (list(Machine.objects.order_by("pk").values_list("pk", "status", "labels")), Run.objects.count()) == before


def test_nothing_ticked_or_nonsense_does_nothing(provider: Provider, ada: User, signed_in: SignedIn) -> None:
    machine = named(provider, "mine")
    client = signed_in(ada)
    assert told(act(client, "drain")) == ["No machine was ticked, so nothing was done."]
    assert act(client, "explode", machine).status_code == 404
    assert client.post(f"{FLEET}with-ticked/drain/", {"machine": "1"}).status_code == 404
    assert Machine.objects.get(pk=machine.pk).status == "active"


def test_one_comes_back_to_the_page_one_was_on_and_nowhere_else(
    provider: Provider, ada: User, signed_in: SignedIn
) -> None:
    machine, client = named(provider, "m", "x"), signed_in(ada)
    for here, there in ((f"{FLEET}?label=x", f"{FLEET}?label=x"), ("https://evil.example/", FLEET), ("", FLEET)):
        data = {"machine": str(machine.pk), "labels": "x", "here": here}
        assert client.post(f"{FLEET}with-ticked/label/", data)["Location"] == there


# -- Why, and what to do ----------------------------------------------------------------------------------------------


def test_machines_that_went_silent_together_are_told_what_they_share(provider: Provider) -> None:
    site = [named(provider, f"site-{number}") for number in range(3)]
    alone = named(provider, "alone")
    silent(*site, minutes=10)
    silent(alone, minutes=60)
    whats = {row.machine.name: row.standings[0] for row in fleet_page(provider, FleetFilters(state="offline")).rows}
    assert "2 other machines of yours" in whats["site-0"].what and "power, router or uplink" in whats["site-0"].next
    assert "no other machine of yours" in whats["alone"].what and "docker ps" in whats["alone"].next


def test_other_peoples_silence_is_not_counted(provider: Provider) -> None:
    silent(named(provider, "mine"), named(provider_of_user(person("Olaf")), "theirs"))
    assert "no other machine of yours" in fleet_page(provider, FleetFilters()).rows[0].standings[0].what


def test_a_listed_machine_is_fine_and_not_among_those_needing_attention(provider: Provider) -> None:
    listing = listing_new(provider)
    row = fleet_page(provider, FleetFilters()).rows[0]
    assert (row.machine.pk, row.standings[0].what) == (listing.machine_id, "Online and on offer.")
    assert names(provider, state="attention") == []


# -- Size -------------------------------------------------------------------------------------------------------------


def test_pages_follow_each_other_by_name_without_gap_or_repetition(provider: Provider) -> None:
    for number in range(PAGE + 5):
        bare(provider, f"m-{number % 7}")  # many share a name
    first = fleet_page(provider, FleetFilters())
    second = fleet_page(provider, FleetFilters(), cursor=first.next_cursor or "")
    found = [row.machine.pk for row in (*first.rows, *second.rows)]
    assert len(first.rows) == PAGE and second.next_cursor is None
    assert sorted(found) == sorted(Machine.objects.values_list("pk", flat=True))
    assert first.found == second.found == PAGE + 5


def test_a_cursor_that_is_none_of_ours_shows_the_first_page(provider: Provider, ada: User, signed_in: SignedIn) -> None:
    assert signed_in(ada).get(FLEET, {"cursor": "AAAA", "label": "x"})["Location"] == f"{FLEET}?label=x"


def bare(provider: Provider, name: str) -> Machine:
    """A row like that of an enrolled machine, without its evidence: for tests of size."""
    found = Machine.objects.filter(provider=provider).first()
    machine = found or machine_new(provider, measured=False)
    if found is not None:
        machine = Machine.objects.get(pk=found.pk)
        machine.pk, machine._state.adding = None, True
        machine.id, machine.enrol_key = uuid7(), uuid4()
    machine.name = name
    machine.save()
    return machine


FLEET_QUERIES = 20
OVERVIEW_QUERIES = 34
"""Whatever the number of machines: see the tests below."""


@pytest.mark.parametrize("machines", [1, 12])
def test_a_page_costs_as_many_queries_for_one_machine_as_for_many(
    provider: Provider, ada: User, signed_in: SignedIn, machines: int
) -> None:
    made = [listing_new(provider).machine for _number in range(machines)]
    silent(made[0])
    client = signed_in(ada)
    for path, most in ((FLEET, FLEET_QUERIES), ("/provider/", OVERVIEW_QUERIES)):
        with CaptureQueriesContext(connection) as queries:
            assert client.get(path).status_code == 200
        assert len(queries) <= most, "\n".join(query["sql"][:120] for query in queries.captured_queries)


def test_two_hundred_machines_make_a_short_page(provider: Provider, ada: User, signed_in: SignedIn) -> None:
    for number in range(200):
        bare(provider, f"m-{number:03}")
    client = signed_in(ada)
    with CaptureQueriesContext(connection) as queries:
        page = client.get(FLEET)
    assert len(page.context["page"].rows) == PAGE and "cursor=" in page.content.decode()
    assert len(queries) <= FLEET_QUERIES
    assert len(page.content) < 200_000
    overview = client.get("/provider/")
    assert len(overview.context["rows"]) == 10 and overview.context["more_todos"] == 190
    assert len(overview.content) < 60_000
