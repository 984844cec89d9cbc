"""What the demo's world holds: a review queue worth looking at, and customers who rent what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from accounts.models import User
from core import clock
from gpunex.demo.build import demo_build
from gpunex.demo.world import ADA, APPLICANTS, OTHERS
from providers.models import Application
from providers.selectors import application_checks, application_proposal, review_queue
from providers.services import application_reject
from tour.work import FIRST_WORK, ROTA

pytestmark = pytest.mark.django_db


def test_the_queue_holds_one_to_wave_through_and_one_to_look_at(tmp_path: Path) -> None:
    demo_build(tmp_path, now=clock.now())
    assert (tmp_path / "customers.json").stat().st_mode & 0o077 == 0
    first, second = review_queue()
    assert application_proposal(first).tier == "enterprise" and all(check.ok for check in application_checks(first))
    assert application_proposal(second).tier == "community"
    assert [check.label for check in application_checks(second) if not check.ok] == [
        "Every GPU is a supported model",
        "All machines have a UPS",
    ]


def test_what_olga_decided_stays_decided(tmp_path: Path) -> None:
    demo_build(tmp_path, now=clock.now())
    olga = User.objects.get(email__startswith="olga@")
    application_reject(application=review_queue()[0], reviewer=olga, reason="No.", now=clock.now())
    demo_build(tmp_path, now=clock.now())
    assert review_queue().count() == len(APPLICANTS) - 1
    assert Application.objects.count() == 1 + len(OTHERS) + len(APPLICANTS)


def test_the_customers_only_rent_what_is_there() -> None:
    offered = {
        (spec.handle, machine.model): machine.gpus
        for spec in (ADA, *OTHERS)
        for machine in spec.machines
        if machine.share == 1.0
    }
    for work in (*FIRST_WORK, *(work for rota in ROTA.values() for work in rota)):
        assert offered[work.provider, work.model] >= work.gpus, work
