"""The demo is made by services, twice is once, and nobody gets a demo by accident."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from accounts.models import User
from core import clock
from gpunex.demo.build import asking_micro, demo_build, demo_follow
from gpunex.demo.world import ADA, OTHERS, PRICES
from marketplace.models import Rate
from providers.models import Application, EnrolmentToken, GpuModel, Provider
from tests.factories.marketplace import machine_new

pytestmark = pytest.mark.django_db
EVERYBODY = (ADA, *OTHERS)


def counts() -> dict[str, int]:
    return {model.__name__: model.objects.count() for model in (User, Application, Provider, EnrolmentToken, Rate)}


def test_building_twice_is_building_once(tmp_path: Path) -> None:
    demo_build(tmp_path, now=clock.now())
    before, logins = counts(), (tmp_path / "logins.json").read_text()
    profiles = {path: path.read_text() for path in tmp_path.rglob("profile.json")}
    demo_build(tmp_path, now=clock.now())
    assert counts() == before
    assert (tmp_path / "logins.json").read_text() == logins
    assert {path: path.read_text() for path in tmp_path.rglob("profile.json")} == profiles
    assert len(profiles) == sum(len(spec.machines) for spec in EVERYBODY)
    assert Provider.objects.filter(status="active").count() == len(EVERYBODY)


def test_log_ins_are_private_and_open_the_door(tmp_path: Path, client: object) -> None:
    demo_build(tmp_path, now=clock.now())
    file = tmp_path / "logins.json"
    assert file.stat().st_mode & 0o077 == 0
    for login in json.loads(file.read_text()).values():
        user = User.objects.get(email=login["email"])
        assert user.check_password(login["password"])
    assert User.objects.filter(is_staff=True).count() == 1
    assert not User.objects.filter(is_superuser=True).exists()


def test_owners_confirm_their_simulated_hosts_and_no_others(tmp_path: Path) -> None:
    demo_build(tmp_path, now=clock.now())
    expected = sum(len(spec.machines) for spec in EVERYBODY)
    assert demo_follow(now=clock.now()) == expected
    ada = Provider.objects.get(party__handle=ADA.handle)
    machine = machine_new(ada, confirmed=False, measured=False)
    assert demo_follow(now=clock.now()) == expected - 1
    machine.refresh_from_db()
    assert machine.status == "active"


def test_every_model_of_the_demo_is_in_the_catalogue_and_has_a_price() -> None:
    models = {machine.model for spec in EVERYBODY for machine in spec.machines}
    assert models <= set(PRICES)
    assert set(PRICES) <= set(GpuModel.objects.values_list("slug", flat=True))


def test_asking_prices_lie_between_low_and_high() -> None:
    assert [asking_micro("l4-24gb", position) for position in (0, 1, 2)] == [300_000, 440_000, 600_000]
    assert asking_micro("l4-24gb", 0.5) == 370_000


def test_an_installation_that_is_no_demo_is_left_as_it_is() -> None:
    with pytest.raises(CommandError, match="not a demo"):
        call_command("demo")
    assert not User.objects.exists()
