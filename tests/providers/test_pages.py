"""The application form without a script, its status page, the fleet for programs, and the operator's review."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import User
from core import clock
from providers import services
from providers.models import Application, EnrolmentToken, Gpu, GpuModel, Machine, Provider
from tests.factories.providers import (
    APPLICATION,
    application_make,
    gpu_report,
    gpus_of,
    groups,
    machine_make,
    provider_make,
)

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]


def form(**changes: str) -> dict[str, str]:
    """A whole application as a browser sends it."""
    return {
        "legal_name": "Ada Lovelace",
        "email": "ada@example.com",
        "company": "",
        "ups": "all",
        "commitment_months": "6",
        "maintenance_note": "First Sunday, 2 hours.",
        "groups": "1",
        "group-0-gpu_model": "l4-24gb",
        "group-0-quantity": "8",
        "group-0-host_memory_gb": "256",
        "group-0-download_gbps": "10",
        "group-0-upload_gbps": "1.5",
        "group-0-availability": "always",
        "group-0-city": "Frankfurt",
        "group-0-country": "DE",
        **changes,
    }


def test_an_application_is_submitted_without_a_script(ada: User, signed_in: SignedIn) -> None:
    client = signed_in(ada)
    page = client.get("/provider/apply/").content.decode()
    assert "NVIDIA L4 24 GB" in page and 'name="add_group"' in page and 'value="Ada"' in page
    answer = client.post("/provider/apply/", form(submit="1"), follow=True)
    assert answer.redirect_chain == [("/provider/application/", 302)]
    text = answer.content.decode()
    assert "Submitted" in text and "NVIDIA L4 24 GB" in text and "1 to 3 business days" in text
    application = Application.objects.get()
    group = application.groups.get()
    assert (application.status, application.commitment_months, group.upload_mbps) == ("submitted", 6, 1500)


def test_several_groups_are_added_and_removed(ada: User, signed_in: SignedIn) -> None:
    client = signed_in(ada)
    page = client.post("/provider/apply/", form(add_group="1")).content.decode()
    assert 'name="group-1-gpu_model"' in page and 'value="Frankfurt"' in page and not Application.objects.exists()
    second = {
        "groups": "2",
        "group-1-gpu_model": "other",
        "group-1-other_model": "NVIDIA B200",
        "group-1-quantity": "2",
        "group-1-host_memory_gb": "512",
        "group-1-download_gbps": "25",
        "group-1-upload_gbps": "25",
        "group-1-availability": "schedule",
        "group-1-schedule_zone": "Europe/Berlin",
        "group-1-windows": "mon-fri 18:00-08:00\nSat, Sun 10:00–12:00",
        "group-1-city": "Berlin",
        "group-1-country": "DE",
    }
    removed = client.post("/provider/apply/", form(**second, remove_group="0")).content.decode()
    assert 'value="NVIDIA B200"' in removed and 'name="group-1-gpu_model"' not in removed
    client.post("/provider/apply/", form(**second, submit="1"))
    groups = list(Application.objects.get().groups.all())
    assert [str(group.gpu_model or group.other_model) for group in groups] == ["NVIDIA L4 24 GB", "NVIDIA B200"]
    assert groups[1].windows == [
        {"days": [0, 1, 2, 3, 4], "start": "18:00", "end": "08:00"},
        {"days": [5, 6], "start": "10:00", "end": "12:00"},
    ]
    shown = client.get("/provider/application/").content.decode()
    assert "mon-fri 18:00-08:00; sat,sun 10:00-12:00" in shown


def test_a_draft_is_saved_and_shown_again(ada: User, signed_in: SignedIn) -> None:
    client = signed_in(ada)
    client.post("/provider/apply/", {"legal_name": "Ada L.", "groups": "1", "group-0-city": "Ulm", "save": "1"})
    assert Application.objects.get().status == "draft"
    page = client.get("/provider/apply/").content.decode()
    assert 'value="Ada L."' in page and 'value="Ulm"' in page
    assert client.get("/provider/application/").status_code == 200


BAD_FIELDS = [
    ("group-0-gpu_model", "rtx-9999"),
    ("group-0-gpu_model", ""),
    ("group-0-quantity", "0"),
    ("group-0-quantity", "10000"),
    ("group-0-quantity", "many"),
    ("group-0-upload_gbps", "-1"),
    ("group-0-download_gbps", "NaN"),
    ("group-0-host_memory_gb", ""),
    ("group-0-country", "KP"),
    ("group-0-city", ""),
    ("email", "nobody"),
    ("ups", "perhaps"),
    ("commitment_months", "5"),
    ("legal_name", ""),
]


@pytest.mark.parametrize(("name", "value"), BAD_FIELDS)
def test_a_bad_field_has_its_error_beside_it(ada: User, signed_in: SignedIn, name: str, value: str) -> None:
    answer = signed_in(ada).post("/provider/apply/", form(submit="1", **{name: value}))
    assert answer.status_code == 200 and not Application.objects.filter(status="submitted").exists()
    found = answer.context["forms"]
    bound = found.groups[0] if name.startswith("group-") else found.form
    assert list(bound.errors) == [name.removeprefix("group-0-")]
    assert f'id="id_{name}_feedback"' in answer.content.decode() or "invalid-feedback" in answer.content.decode()


@pytest.mark.parametrize(
    "windows", ["mon 8-9", "someday 08:00-09:00", "mon 08:00-09:00\nmon 08:30-10:00", "mon-fri 25:00-26:00", ""]
)
def test_bad_windows_are_named_at_the_schedule(ada: User, signed_in: SignedIn, windows: str) -> None:
    scheduled = {"group-0-availability": "schedule", "group-0-schedule_zone": "UTC", "group-0-windows": windows}
    answer = signed_in(ada).post("/provider/apply/", form(submit="1", **scheduled))
    assert answer.status_code == 200 and list(answer.context["forms"].groups[0].errors) == ["windows"]


@pytest.mark.parametrize("count", ["-1", "x", "99999999999", "", "0", "500"])
def test_a_forged_group_count_breaks_nothing(ada: User, signed_in: SignedIn, count: str) -> None:
    assert signed_in(ada).post("/provider/apply/", form(groups=count, submit="1")).status_code in {200, 302}


def test_a_question_is_answered_on_the_status_page(ada: User, olga: User, signed_in: SignedIn) -> None:
    application, client = application_make(ada), signed_in(ada)
    services.application_request_information(
        application=application, reviewer=olga, question="Which city?", sections=["gpus"], now=clock.now()
    )
    page = client.get("/provider/application/").content.decode()
    assert "Which city?" in page and 'name="group-0-city"' in page and 'name="legal_name"' not in page
    bad = client.post("/provider/application/", form(**{"group-0-quantity": "0", "answer": "Ulm."}))
    assert list(bad.context["forms"].groups[0].errors) == ["quantity"]
    empty = client.post("/provider/application/", form(answer=" "))
    assert list(empty.context["answer"].errors) == ["answer"]
    sent = form(**{"group-0-city": "Ulm", "legal_name": "Somebody", "answer": "Ulm."})
    assert client.post("/provider/application/", sent)["Location"] == "/provider/application/"
    application.refresh_from_db()
    assert (application.status, application.legal_name) == ("in_review", "Ada Lovelace")
    assert application.groups.get().city == "Ulm"


def test_the_timeline_shows_reasons_and_no_reviewer(ada: User, olga: User, signed_in: SignedIn) -> None:
    application = application_make(ada)
    services.application_reject(application=application, reviewer=olga, reason="Too slow.", now=clock.now())
    page = signed_in(ada).get("/provider/application/").content.decode()
    assert "Too slow." in page and "Rejected" in page and "olga" not in page.lower() and str(olga.pk) not in page


def test_an_application_is_withdrawn(ada: User, signed_in: SignedIn) -> None:
    application_make(ada)
    signed_in(ada).post("/provider/application/withdraw/")
    assert Application.objects.get().status == "withdrawn"


def test_each_person_sees_only_their_own(ada: User, eve: User, signed_in: SignedIn) -> None:
    application_make(ada)
    client = signed_in(eve)
    assert client.get("/provider/application/")["Location"] == "/provider/apply/"
    assert "Ada Lovelace" not in client.get("/provider/apply/").content.decode()
    client.post("/provider/application/withdraw/")
    assert Application.objects.get().status == "submitted"


def test_the_fleet_for_programs(ada: User, ravi: User, eve: User, olga: User, signed_in: SignedIn) -> None:
    provider = provider_make(ada, reviewer=olga)
    machine, retired = machine_make(provider, gpus=[gpu_report(uuid="GPU-a")]), machine_make(provider)
    services.machine_retire(machine=retired, actor=ada, now=clock.now())
    client = signed_in(ada)
    body = client.get("/api/v1/provider/machines").json()
    assert [row["id"] for row in body["machines"]] == [str(machine.pk)] and body["next_cursor"] is None
    assert [(gpu["uuid"], gpu["model"], gpu["status"]) for gpu in body["machines"][0]["gpus"]] == [
        ("GPU-a", "l4-24gb", "active")
    ]
    assert client.get(f"/api/v1/provider/machines/{retired.pk}").json()["status"] == "retired"
    provider_make(ravi, reviewer=olga)
    for stranger in (ravi, eve):
        assert signed_in(stranger).get(f"/api/v1/provider/machines/{machine.pk}").status_code == 404
    assert signed_in(eve).get("/api/v1/provider/machines").json()["code"] == "not_found"


def test_the_fleet_is_paged(ada: User, olga: User, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("providers.api.public.PAGE", 2)
    provider = provider_make(ada, reviewer=olga)
    made = [str(machine_make(provider).pk) for _number in range(5)]
    client, seen, cursor = signed_in(ada), [], ""
    while cursor is not None:
        body = client.get("/api/v1/provider/machines", {"cursor": cursor} if cursor else {}).json()
        seen += [row["id"] for row in body["machines"]]
        cursor = body["next_cursor"]
    assert seen == made[::-1]
    assert client.get("/api/v1/provider/machines", {"cursor": "forged"}).json()["fields"].keys() == {"cursor"}


def test_the_installer_is_plain_text_with_our_address(client: Client, settings: Any) -> None:
    settings.ORIGIN, settings.AGENT_IMAGE = "https://gpunex.example", "ghcr.io/x/agent@sha256:" + "0" * 64
    answer = client.get("/agent")
    script = answer.content.decode()
    assert answer["Content-Type"] == "text/plain; charset=utf-8" and script.startswith("#!/bin/sh\n")
    template = (settings.BASE_DIR / "agent" / "install.sh").read_text()
    filled = {"@ORIGIN@": settings.ORIGIN, "@AGENT_IMAGE@": settings.AGENT_IMAGE, "@GUARD_IMAGE@": ""}
    assert all(name in template for name in filled)
    for name, value in filled.items():
        template = template.replace(name, value)
    assert script == template, "nothing else of it changes"
    assert client.get("/agent/manual/").status_code == 200


def _verb(model: str, subject: Any, verb: str) -> str:
    return reverse(f"admin:providers_{model}_verb", args=[subject.pk, verb])


def test_olga_reviews_from_the_queue(ada: User, ravi: User, olga: User, signed_in: SignedIn) -> None:
    application, client = application_make(ada), signed_in(olga)
    application_make(ravi, submit=False)
    queue = client.get("/admin/providers/application/").content.decode()
    assert "Ada Lovelace" in queue and str(application.pk) in queue
    page = client.get(f"/admin/providers/application/{application.pk}/change/").content.decode()
    assert "Proposed tier" in page and _verb("application", application, "approve") in page
    where = _verb("application", application, "approve")
    assert 'value="enterprise" selected' in client.get(where).content.decode()
    bad = client.post(where, {"tier": "gold", "approved_machines": "0", "reason": ""})
    assert set(bad.context["form"].errors) == {"tier", "approved_machines", "reason"} and not Provider.objects.exists()
    done = client.post(where, {"tier": "enterprise", "approved_machines": "3", "reason": "Good."}, follow=True)
    assert done.status_code == 200 and Provider.objects.get().approved_machines == 3
    again = client.post(where, {"tier": "enterprise", "approved_machines": "3", "reason": "Good."})
    assert "it is final" in again.content.decode() and Provider.objects.count() == 1


@pytest.mark.parametrize(
    ("verb", "values", "status"),
    [
        ("ask", {"reason": "Which UPS?", "sections": ["infrastructure"]}, "more_information"),
        ("reject", {"reason": "Too slow."}, "rejected"),
    ],
)
def test_the_other_decisions(
    ada: User, olga: User, signed_in: SignedIn, verb: str, values: dict[str, Any], status: str
) -> None:
    application = application_make(ada)
    signed_in(olga).post(_verb("application", application, verb), values)
    application.refresh_from_db()
    assert application.status == status


def test_staff_verbs_on_the_fleet(ada: User, olga: User, signed_in: SignedIn) -> None:
    provider = provider_make(ada, reviewer=olga, gpus=groups(("l4-24gb", 1)))
    machine = machine_make(provider, gpus=[gpu_report(), gpu_report("NVIDIA B200", uuid="GPU-z")])
    client, reason = signed_in(olga), {"reason": "Looked at."}
    for model in ("provider", "machine", "gpu", "enrolmenttoken", "gpumodel"):
        assert client.get(f"/admin/providers/{model}/").status_code == 200
    for model, row in (("provider", provider), ("machine", machine), ("gpu", gpus_of(machine)[0])):
        assert client.get(f"/admin/providers/{model}/{row.pk}/change/").status_code == 200
    for verb, status in (("quarantine", "quarantined"), ("release", "active"), ("revoke", "revoked")):
        client.post(_verb("machine", machine, verb), reason)
        assert Machine.objects.get().status == status
    for verb, status in (("suspend", "suspended"), ("reinstate", "active"), ("close", "closed")):
        client.post(_verb("provider", provider, verb), reason)
        assert Provider.objects.get().status == status


def test_staff_accept_a_card_and_revoke_a_token(ada: User, olga: User, signed_in: SignedIn) -> None:
    machine = machine_make(provider_make(ada, reviewer=olga), gpus=[gpu_report("NVIDIA B200")])
    gpu, client = gpus_of(machine)[0], signed_in(olga)
    client.post(_verb("gpu", gpu, "accept"), {"model": "", "reason": "Seen."})
    assert Gpu.objects.get().status == "needs_review"
    known = GpuModel.objects.get(slug="l4-24gb")
    client.post(_verb("gpu", gpu, "accept"), {"model": str(known.pk), "reason": "Seen."})
    assert Gpu.objects.get().status == "active"
    token = EnrolmentToken.objects.get(revoked_at__isnull=True)
    client.post(_verb("enrolmenttoken", token, "revoke"))
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_who_may_not_act_moves_nothing(ada: User, eve: User, olga: User, signed_in: SignedIn) -> None:
    application = application_make(ada)
    where = _verb("application", application, "approve")
    decision = {"tier": "community", "approved_machines": "1", "reason": "x"}
    olga.user_permissions.clear()
    for person in (olga, eve, ada):
        assert signed_in(person).post(where, decision).status_code in {302, 403}
    application.refresh_from_db()
    assert application.status == "submitted" and not Provider.objects.exists()


def test_an_applicants_words_are_escaped(ada: User, olga: User, signed_in: SignedIn) -> None:
    nasty = json.loads('"<script>alert(1)</script>"')
    application = application_make(ada, data=services.ApplicationInput(**{**vars(APPLICATION), "company": nasty}))
    for client, where in (
        (signed_in(ada), "/provider/application/"),
        (signed_in(olga), f"/admin/providers/application/{application.pk}/change/"),
    ):
        page = client.get(where).content.decode()
        assert "&lt;script&gt;alert(1)" in page and "<script>alert(1)" not in page
