"""Cards that the application does not cover: asked for, accepted, declined, swapped, sold; and hosts below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.models import Notification, User
from benchmarks.models import Run
from core import clock, news
from core.errors import Conflict, Invalid
from core.models import StatusEvent
from providers import services
from providers.models import Gpu, GpuModel, Machine, Provider
from providers.selectors import gpus_in_review, machines_short
from providers.shortfalls import Declared, Found, shortfalls
from tests.factories.providers import APPLICATION as FORM
from tests.factories.providers import (
    HOST,
    application_make,
    gpu_report,
    gpus_of,
    groups,
    inventory,
    machine_make,
    provider_make,
)

SignedIn = Callable[[User], Client]
DAY = timedelta(days=1)


@pytest.fixture
def provider(db: None, ada: User, olga: User) -> Provider:
    """Ada, approved for one L4 in Germany and one in Japan."""
    two = (*groups(("l4-24gb", 1)), *groups(("l4-24gb", 1), country="JP", city="Tokyo"))
    return provider_make(ada, reviewer=olga, gpus=two)


def record(machine: Machine, *reported: Any, host: Any = HOST) -> list[tuple[str, str, str]]:
    services.machine_inventory_record(machine=machine, inventory=inventory(reported, host=host), now=clock.now())
    return states(machine)


def states(machine: Machine) -> list[tuple[str, str, str]]:
    """(UUID, status, reason) of each row, oldest first where a UUID has several."""
    rows = Gpu.objects.filter(machine=machine).order_by("uuid", "created_at")
    return [(gpu.uuid, gpu.status, gpu.reason) for gpu in rows]


def told(kind: str) -> list[str]:
    return [row.user.email for row in Notification.objects.filter(kind=kind)]


def everything_told() -> None:
    while news.deliver():
        pass


class TestCountry:
    def test_the_approved_quantity_is_that_of_the_machines_country(self, provider: Provider) -> None:
        german = machine_make(provider, gpus=[gpu_report(uuid="GPU-a"), gpu_report(uuid="GPU-b")])
        assert states(german) == [("GPU-a", "active", ""), ("GPU-b", "needs_review", "over_approved")]

    def test_who_says_it_stands_elsewhere_is_judged_anew(self, provider: Provider) -> None:
        machine_make(provider, gpus=[gpu_report(uuid="GPU-a")])
        new = machine_make(provider, gpus=[gpu_report(uuid="GPU-b")], confirm=False)
        assert states(new) == [("GPU-b", "needs_review", "over_approved")]
        services.machine_confirm(machine=new, actor="test", country="JP", now=clock.now())
        everything_told()
        assert states(new) == [("GPU-b", "active", "")]

    def test_a_card_approved_for_another_country_only_says_so(self, db: None, ada: User, olga: User) -> None:
        two = (*groups(("l4-24gb", 2)), *groups(("h100-sxm-80gb", 1), country="JP", city="Tokyo"))
        machine = machine_make(provider_make(ada, reviewer=olga, gpus=two), gpus=[])
        found = record(machine, gpu_report("NVIDIA H100 80GB HBM3", uuid="GPU-h"))
        assert found == [("GPU-h", "needs_review", "country")]

    def test_the_page_asks_where_it_stands(self, provider: Provider, ada: User, signed_in: SignedIn) -> None:
        machine = machine_make(provider, confirm=False)
        client, where = signed_in(ada), f"/provider/machines/{machine.pk}/"
        assert 'name="country"' in client.get(where).content.decode()
        client.post(f"{where}confirm/", {"country": "FR"})
        machine.refresh_from_db()
        assert (machine.status, machine.country) == ("pending_confirmation", "DE")
        client.post(f"{where}confirm/", {"country": "JP"})
        machine.refresh_from_db()
        assert (machine.status, machine.country, machine.region) == ("active", "JP", "east-asia")


class TestRequests:
    @pytest.fixture
    def held(self, provider: Provider) -> Gpu:
        machine = machine_make(provider, gpus=[gpu_report(uuid="GPU-a"), gpu_report(uuid="GPU-b")])
        return gpus_of(machine)[1]

    def test_a_held_card_is_asked_for_accepted_and_its_owner_told(self, held: Gpu, olga: User) -> None:
        assert gpus_in_review() == (1, 0)
        services.gpu_request(gpu=held, actor="test", note=" Bought in May. ", now=clock.now())
        held.refresh_from_db()
        assert (held.request_note, gpus_in_review()) == ("Bought in May.", (1, 1))
        model = GpuModel.objects.get(slug="l4-24gb")
        services.gpu_accept(gpu=held, model=model, reviewer=olga, reason="Seen.", now=clock.now())
        assert states(held.machine)[1] == ("GPU-b", "active", "")
        assert (told("gpu_accepted"), gpus_in_review()) == (["ada@example.com"], (0, 0))

    def test_a_declined_card_stays_held_until_there_is_room(self, held: Gpu, ada: User, olga: User) -> None:
        machine, now = held.machine, clock.now()
        services.gpu_request(gpu=held, actor="test", note="", now=now)
        services.gpu_decline(gpu=held, reviewer=olga, reason="Too hot a site.", now=now)
        assert record(machine, gpu_report(uuid="GPU-a"), gpu_report(uuid="GPU-b"))[1][1:] == (
            "needs_review",
            "declined",
        )
        assert (told("gpu_declined"), gpus_in_review()) == (["ada@example.com"], (1, 0))
        application = application_make(ada, data=replace(FORM, groups=groups(("l4-24gb", 1))))
        services.application_approve(application=application, tier="enterprise", reviewer=olga, reason="More.", now=now)
        everything_told()
        assert states(machine)[1] == ("GPU-b", "active", "")

    def test_one_asks_once_a_week(self, held: Gpu, olga: User) -> None:
        now = clock.now()
        services.gpu_request(gpu=held, actor="test", note="", now=now)
        services.gpu_decline(gpu=held, reviewer=olga, reason="No.", now=now)
        with pytest.raises(Conflict) as early:
            services.gpu_request(gpu=held, actor="test", note="", now=now + 6 * DAY)
        assert early.value.code == "already_requested"
        services.gpu_request(gpu=held, actor="test", note="", now=now + 8 * DAY)
        held.refresh_from_db()
        assert held.declined == ""

    def test_what_cannot_be_is_refused_and_moves_nothing(self, held: Gpu, olga: User) -> None:
        offered, now = gpus_of(held.machine)[0], clock.now()
        with pytest.raises(Conflict) as not_held:
            services.gpu_request(gpu=offered, actor="test", note="", now=now)
        with pytest.raises(Invalid) as long:
            services.gpu_request(gpu=held, actor="test", note="x" * 1001, now=now)
        with pytest.raises(Conflict) as nobody:
            services.gpu_decline(gpu=held, reviewer=olga, reason="No.", now=now)
        with pytest.raises(Invalid):
            services.gpu_decline(gpu=held, reviewer=olga, reason=" ", now=now)
        with pytest.raises(Conflict) as there:
            services.gpu_release(gpu=held, actor="test", now=now)
        codes = [error.value.code for error in (not_held, long, nobody, there)]
        assert codes == ["not_held", "invalid", "not_requested", "still_there"]
        assert not Gpu.objects.exclude(requested_at=None, declined="").exists()

    def test_owner_and_reviewer_have_their_buttons(
        self, held: Gpu, ada: User, eve: User, olga: User, signed_in: SignedIn
    ) -> None:
        where = f"/provider/machines/{held.machine_id}/"
        owner, reviewer = signed_in(ada), signed_in(olga)
        assert "Add to my fleet" in owner.get(where).content.decode()
        assert signed_in(eve).post(f"{where}gpus/{held.pk}/request/").status_code == 404
        assert owner.post(f"{where}gpus/{held.pk}/explode/").status_code == 404
        assert owner.post(f"{where}gpus/{held.pk}/request/", {"note": "Mine."}).status_code == 302
        assert "You asked to add it" in owner.get(where).content.decode()
        listed = reviewer.get("/admin/providers/gpu/?asked=yes").content.decode()
        assert "GPU-b" in listed and "GPU-a" not in listed
        decline = f"/admin/providers/gpu/{held.pk}/do/decline/"
        assert reviewer.post(decline, {"reason": "Not this one."}).status_code == 302
        assert "Not this one." in owner.get(where).content.decode()


class TestSwap:
    def test_a_swapped_card_is_retired_with_its_history_and_the_new_one_measured(self, provider: Provider) -> None:
        old = gpu_report(uuid="GPU-old", pci_bus_id="00000000:01:00.0")
        machine = machine_make(provider, gpus=[old])
        everything_told()
        assert Run.objects.filter(gpu__uuid="GPU-old").count() == 1
        found = record(machine, gpu_report(uuid="GPU-new", pci_bus_id="00000000:01:00.0"))
        assert found == [("GPU-new", "active", ""), ("GPU-old", "retired", "replaced")]
        everything_told()
        assert Run.objects.get(gpu__uuid="GPU-new").status == "requested"
        assert Run.objects.get(gpu__uuid="GPU-old").status == "failed"
        events = StatusEvent.objects.filter(subject_id=Gpu.objects.get(uuid="GPU-old").pk)
        assert [(event.new, event.reason) for event in events] == [("retired", "replaced")]

    def test_a_card_that_comes_back_after_a_swap_begins_anew(self, provider: Provider) -> None:
        slot = "00000000:01:00.0"
        machine = machine_make(provider, gpus=[gpu_report(uuid="GPU-old", pci_bus_id=slot)])
        record(machine, gpu_report(uuid="GPU-new", pci_bus_id=slot))
        found = record(machine, gpu_report(uuid="GPU-old", pci_bus_id=slot))
        assert found == [
            ("GPU-new", "retired", "replaced"),
            ("GPU-old", "retired", "replaced"),
            ("GPU-old", "active", ""),
        ]

    @pytest.mark.parametrize("slot", [None, "00000000:02:00.0"])
    def test_a_card_in_another_slot_or_in_none_that_we_know_replaces_nobody(
        self, provider: Provider, slot: str | None
    ) -> None:
        machine = machine_make(provider, gpus=[gpu_report(uuid="GPU-old", pci_bus_id="00000000:01:00.0")])
        found = record(machine, gpu_report(uuid="GPU-new", pci_bus_id=slot))
        assert found[1] == ("GPU-old", "unavailable", "gone")

    def test_cards_that_changed_places_are_the_same_cards(self, db: None, ada: User, olga: User) -> None:
        provider = provider_make(ada, reviewer=olga)
        one, two = "00000000:01:00.0", "00000000:02:00.0"
        cards = [gpu_report(uuid="GPU-a", pci_bus_id=one), gpu_report(uuid="GPU-b", pci_bus_id=two)]
        machine = machine_make(provider, gpus=cards)
        record(machine, gpu_report(uuid="GPU-a", pci_bus_id=two), gpu_report(uuid="GPU-b", pci_bus_id=one))
        # Nor does a known card that moved into the place of one that is away.
        found = record(machine, gpu_report(uuid="GPU-a", pci_bus_id=one))
        assert found == [("GPU-a", "active", ""), ("GPU-b", "unavailable", "gone")]


class TestSale:
    @pytest.fixture
    def sold(self, provider: Provider, ravi: User, olga: User) -> tuple[Gpu, Gpu]:
        """Ada's card, gone from her machine, and the same one in Ravi's, held."""
        seller = machine_make(provider, gpus=[gpu_report(uuid="GPU-a")])
        record(seller)
        buyer = machine_make(provider_make(ravi, reviewer=olga), gpus=[gpu_report(uuid="GPU-a")])
        assert states(buyer) == [("GPU-a", "needs_review", "uuid_elsewhere")]
        return gpus_of(seller)[0], gpus_of(buyer)[0]

    def test_the_seller_gives_it_up_and_the_buyer_has_it(
        self, sold: tuple[Gpu, Gpu], ada: User, signed_in: SignedIn
    ) -> None:
        before, after = sold
        services.gpu_request(gpu=after, actor="test", note="Bought from Ada.", now=clock.now())
        assert told("gpu_sold") == ["ada@example.com"]
        where = f"/provider/machines/{before.machine_id}/"
        assert "Give it up" in signed_in(ada).get(where).content.decode()
        assert signed_in(ada).post(f"{where}gpus/{before.pk}/release/").status_code == 302
        everything_told()
        assert states(before.machine) == [("GPU-a", "retired", "released")]
        assert states(after.machine) == [("GPU-a", "active", "")]

    def test_a_reviewer_decides_when_the_seller_does_not_answer(self, sold: tuple[Gpu, Gpu], olga: User) -> None:
        before, after = sold
        model = GpuModel.objects.get(slug="l4-24gb")
        services.gpu_accept(gpu=after, model=model, reviewer=olga, reason="Invoice seen.", now=clock.now())
        assert states(before.machine) == [("GPU-a", "retired", "moved")]
        # A blip of the buyer's card does not hold it again.
        record(after.machine, gpu_report(uuid="GPU-a", health="lost"))
        assert record(after.machine, gpu_report(uuid="GPU-a")) == [("GPU-a", "active", "")]

    def test_a_seller_who_retires_the_machine_gives_it_up_too(self, sold: tuple[Gpu, Gpu]) -> None:
        before, after = sold
        services.machine_retire(machine=before.machine, actor="test", now=clock.now())
        everything_told()
        assert states(after.machine) == [("GPU-a", "active", "")]

    def test_a_card_that_still_sells_is_nobodys_to_ask_for(self, provider: Provider, ravi: User, olga: User) -> None:
        machine_make(provider, gpus=[gpu_report(uuid="GPU-a")])
        rival = machine_make(provider_make(ravi, reviewer=olga), gpus=[gpu_report(uuid="GPU-a")])
        services.gpu_request(gpu=gpus_of(rival)[0], actor="test", note="Mine!", now=clock.now())
        assert told("gpu_sold") == []


GIB = 2**30


@pytest.mark.parametrize(
    ("found", "codes"),
    [
        (Found(256 * GIB, 10_000, 1500), []),
        (Found(256 * GIB * 9 // 10 + GIB, 5000, 750), []),
        (Found(256 * GIB * 9 // 10 - GIB, 4999, 749), ["memory", "download", "upload"]),
        (Found(None, None, None), []),
    ],
)
def test_a_little_less_is_normal_and_unknown_is_no_shortfall(found: Found, codes: list[str]) -> None:
    assert shortfalls([Declared(256, 10_000, 1500)], found) == codes
    # Where two groups fit, the more modest one counts; where none says anything, nothing is short.
    assert shortfalls([Declared(256, 10_000, 1500), Declared(64, 100, 100)], found) == []
    assert shortfalls([Declared(None, None, None)], found) == shortfalls([], found) == []


def test_a_machine_well_below_its_application_flags_the_reviewer_once(
    provider: Provider, olga: User, signed_in: SignedIn
) -> None:
    machine, now = machine_make(provider), clock.now()
    assert not machines_short().exists()
    record(machine, gpu_report(uuid="GPU-a"), host=replace(HOST, ram_bytes=200 * GIB))
    services.machine_network_record(machine_id=machine.pk, down_mbps=9000, up_mbps=400, now=now)
    machine.refresh_from_db()
    assert machine.shortfalls == ["memory", "upload"]
    staff = signed_in(olga)
    listed = staff.get("/admin/providers/machine/?short=open").content.decode()
    assert machine.name in listed
    page = staff.get(f"/admin/providers/machine/{machine.pk}/change/").content.decode()
    assert "less than nine tenths of the declared memory, less than half of the declared upload speed" in page
    accept = f"/admin/providers/machine/{machine.pk}/do/accept-shortfalls/"
    assert staff.post(accept, {"reason": "Fast enough for L4s."}).status_code == 302
    assert not machines_short().exists()
    services.machine_network_record(machine_id=machine.pk, down_mbps=100, up_mbps=None, now=now)
    assert list(machines_short()) == [machine]
    machine.refresh_from_db()
    assert (machine.network_down_mbps, machine.network_up_mbps) == (100, 400)
    services.machine_shortfalls_accept(machine=machine, actor=olga, reason="Still.", now=now)
    with pytest.raises(Conflict):
        services.machine_shortfalls_accept(machine=machine, actor=olga, reason="Again.", now=now)
