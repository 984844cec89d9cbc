"""An application: saved as a draft, submitted whole, asked about, decided; every mistake is named beside its field."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from accounts.models import Notification, User
from accounts.selectors import party_of
from accounts.services import mail_send
from core import clock
from core.errors import Conflict, Denied, Invalid, MoveNotAllowed
from core.models import StatusEvent
from providers import services
from providers.models import Application, EnrolmentToken, Provider, Schedule
from providers.selectors import (
    application_checks,
    application_of,
    application_proposal,
    application_timeline,
    business_days,
    provider_of,
    review_queue,
)
from tests.factories.providers import APPLICATION, GROUP, application_make, enrol, provider_make

pytestmark = pytest.mark.django_db

WINDOWS = [{"days": [0, 1], "start": "22:00", "end": "06:00"}]
SCHEDULED = {"always_on": False, "schedule_zone": "Europe/Berlin", "windows": WINDOWS}


def with_group(**changes: Any) -> services.ApplicationInput:
    return replace(APPLICATION, groups=(replace(GROUP, **changes),))


BAD_INPUT: list[tuple[str, services.ApplicationInput]] = [
    ("legal_name", replace(APPLICATION, legal_name="x" * 121)),
    ("email", replace(APPLICATION, email="not an address")),
    ("email", replace(APPLICATION, email="a@b.example\nBcc: c@d.example")),
    ("company", replace(APPLICATION, company="x" * 121)),
    ("ups", replace(APPLICATION, ups="maybe")),
    ("commitment_months", replace(APPLICATION, commitment_months=7)),
    ("maintenance_note", replace(APPLICATION, maintenance_note="x" * 2001)),
    ("groups", replace(APPLICATION, groups=(GROUP,) * 21)),
    ("groups.0.gpu_model", with_group(gpu_model="rtx-9999")),
    ("groups.0.quantity", with_group(quantity=0)),
    ("groups.0.quantity", with_group(quantity=-1)),
    ("groups.0.quantity", with_group(quantity=10_000)),
    ("groups.0.host_memory_gb", with_group(host_memory_gb=0)),
    ("groups.0.upload_gbps", with_group(upload_gbps=Decimal(-1))),
    ("groups.0.upload_gbps", with_group(upload_gbps=Decimal("0.0001"))),
    ("groups.0.upload_gbps", with_group(upload_gbps=Decimal("NaN"))),
    ("groups.0.download_gbps", with_group(download_gbps=Decimal("1e9"))),
    ("groups.0.download_gbps", with_group(download_gbps=Decimal("1.0005"))),
    ("groups.0.city", with_group(city="x" * 81)),
    ("groups.0.country", with_group(country="KP")),
    ("groups.0.country", with_group(country="Germany")),
    ("groups.0.schedule_zone", with_group(**SCHEDULED | {"schedule_zone": "Mars/Base"})),
    (
        "groups.0.windows",
        with_group(**SCHEDULED | {"windows": [*WINDOWS, {"days": [2], "start": "05:00", "end": "09:00"}]}),
    ),
    (
        "groups.0.windows.0.days",
        with_group(**SCHEDULED | {"windows": [{"days": [7], "start": "01:00", "end": "02:00"}]}),
    ),
    (
        "groups.0.windows.0.end",
        with_group(**SCHEDULED | {"windows": [{"days": [0], "start": "01:00", "end": "25:00"}]}),
    ),
    (
        "groups.0.windows.0.end",
        with_group(**SCHEDULED | {"windows": [{"days": [0], "start": "01:00", "end": "01:00"}]}),
    ),
]
GAPS: list[tuple[str, services.ApplicationInput]] = [
    ("legal_name", replace(APPLICATION, legal_name="  ")),
    ("email", replace(APPLICATION, email="")),
    ("ups", replace(APPLICATION, ups="")),
    ("commitment_months", replace(APPLICATION, commitment_months=None)),
    ("groups", replace(APPLICATION, groups=())),
    ("groups.0.gpu_model", with_group(gpu_model="")),
    ("groups.0.other_model", with_group(gpu_model="other")),
    ("groups.0.quantity", with_group(quantity=None)),
    ("groups.0.host_memory_gb", with_group(host_memory_gb=None)),
    ("groups.0.upload_gbps", with_group(upload_gbps=None)),
    ("groups.0.download_gbps", with_group(download_gbps=None)),
    ("groups.0.city", with_group(city="")),
    ("groups.0.country", with_group(country="")),
    ("groups.0.schedule_zone", with_group(**SCHEDULED | {"schedule_zone": ""})),
    ("groups.0.windows", with_group(**SCHEDULED | {"windows": []})),
]


@pytest.mark.parametrize(("field", "data"), BAD_INPUT)
def test_what_cannot_be_right_is_refused_even_in_a_draft(
    ada: User, field: str, data: services.ApplicationInput
) -> None:
    with pytest.raises(Invalid) as refused:
        application_make(ada, data=data, submit=False)
    assert list(refused.value.fields) == [field]
    assert all("Found" in text and "allowed" in text for text in refused.value.fields[field])
    assert not Application.objects.exists()


@pytest.mark.parametrize(("field", "data"), GAPS)
def test_a_draft_may_have_gaps_but_a_submission_names_each(
    ada: User, field: str, data: services.ApplicationInput
) -> None:
    draft = application_make(ada, data=data, submit=False)
    with pytest.raises(Invalid) as refused:
        services.application_submit(application=draft, actor=ada, now=clock.now())
    assert list(refused.value.fields) == [field]
    draft.refresh_from_db()
    assert draft.status == "draft" and not StatusEvent.objects.exists()


def test_every_mistake_is_named_at_once(ada: User) -> None:
    data = replace(APPLICATION, email="x", groups=(replace(GROUP, quantity=0), replace(GROUP, country="KP")))
    with pytest.raises(Invalid) as refused:
        application_make(ada, data=data)
    assert set(refused.value.fields) == {"email", "groups.0.quantity", "groups.1.country"}


def test_a_draft_reads_back_as_it_was_saved(ada: User) -> None:
    data = replace(
        APPLICATION, groups=(GROUP, replace(GROUP, gpu_model="other", other_model="B200", **SCHEDULED)), ups="some"
    )
    assert services.application_input(application_make(ada, data=data, submit=False)) == data


def test_saving_again_replaces_the_draft(ada: User) -> None:
    first = application_make(ada, submit=False)
    second = application_make(ada, data=replace(APPLICATION, company=""), submit=False)
    assert first.pk == second.pk and Application.objects.get().company == ""


def test_a_submitted_application_is_read_only(ada: User) -> None:
    application = application_make(ada)
    with pytest.raises(Conflict) as refused:
        application_make(ada, data=replace(APPLICATION, company="Other"), submit=False)
    assert refused.value.code == "application_under_way"
    application.refresh_from_db()
    assert application.company == "Engines Ltd"


def test_an_approval_makes_a_provider_and_mails_the_command_and_the_token(ada: User, olga: User) -> None:
    provider = provider_make(ada, reviewer=olga)
    assert (provider.tier, provider.status, provider.country, provider.region) == (
        "enterprise",
        "active",
        "DE",
        "western-europe",
    )
    assert provider.approved_machines == 8 and provider.commitment_months == 12
    token = EnrolmentToken.objects.get()
    assert (token.uses_left, (token.expires_at - token.created_at).days) == (8, 14)
    mail = Notification.objects.get(user=ada)
    assert "/agent | bash" in mail.body and mail.url == "/provider/"
    assert "gpxe_" not in mail.body  # the secret travels in the mail only; the inbox does not keep it
    application = Application.objects.get()
    assert [event.new for event in application_timeline(application)] == ["submitted", "in_review", "approved"]
    assert Schedule.objects.get().always_on


def test_the_mail_holds_a_token_that_works(
    ada: User, olga: User, mailoutbox: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    provider_make(ada, reviewer=olga)
    row = Notification.objects.get(user=ada)
    from_mail = _sent(row, mailoutbox)
    secret = next(word for word in from_mail.split() if word.startswith("gpxe_"))
    machine, _credential, _token = enrolled_with(secret)
    assert machine.provider == provider_of(party_of(ada))


def _sent(row: Notification, mailoutbox: list[Any]) -> str:
    assert mail_send(mail_id=row.mail_id, now=clock.now())
    return str(mailoutbox[-1].body)


def enrolled_with(secret: str) -> Any:
    return enrol(Provider.objects.get(), token=secret)


def test_the_declared_windows_become_the_default_schedule(ada: User, olga: User) -> None:
    groups = (replace(GROUP, quantity=4), replace(GROUP, quantity=2, **SCHEDULED))
    provider_make(ada, reviewer=olga, gpus=groups)
    schedule = Schedule.objects.get()
    assert (schedule.zone, schedule.windows) == ("Europe/Berlin", WINDOWS)


def test_a_question_reopens_exactly_what_was_asked_for(ada: User, olga: User) -> None:
    application = application_make(ada)
    services.application_request_information(
        application=application, reviewer=olga, question="Which UPS?", sections=["infrastructure"], now=clock.now()
    )
    assert Notification.objects.get(user=ada).kind == "application_information"
    changed = replace(APPLICATION, ups="some", legal_name="Somebody Else", groups=())
    services.application_answer(application=application, actor=ada, data=changed, answer="An APC.", now=clock.now())
    application.refresh_from_db()
    assert (application.status, application.ups, application.answer) == ("in_review", "some", "An APC.")
    assert application.legal_name == "Ada Lovelace" and application.groups.count() == 1
    with pytest.raises(Conflict):
        services.application_answer(application=application, actor=ada, data=changed, answer="More", now=clock.now())


def test_a_bad_answer_changes_nothing(ada: User, olga: User) -> None:
    application = application_make(ada)
    services.application_request_information(
        application=application, reviewer=olga, question="?", sections=["gpus"], now=clock.now()
    )
    for field, data, answer in (
        ("answer", APPLICATION, " "),
        ("groups.0.quantity", with_group(quantity=0), "Yes"),
    ):
        with pytest.raises(Invalid) as refused:
            services.application_answer(application=application, actor=ada, data=data, answer=answer, now=clock.now())
        assert list(refused.value.fields) == [field]
    application.refresh_from_db()
    assert application.status == "more_information"


def test_a_rejection_says_why_and_lets_the_party_apply_again(ada: User, olga: User) -> None:
    application = application_make(ada)
    with pytest.raises(Invalid):
        services.application_reject(application=application, reviewer=olga, reason=" ", now=clock.now())
    application.refresh_from_db()
    assert application.status == "submitted"
    services.application_reject(application=application, reviewer=olga, reason="Too slow.", now=clock.now())
    assert "Too slow." in Notification.objects.get(user=ada).body
    application_make(ada)
    assert Application.objects.count() == 2
    newest = application_of(party_of(ada))
    assert newest is not None and newest.status == "submitted"


@pytest.mark.parametrize("status", ["approved", "rejected", "withdrawn"])
def test_a_decided_application_moves_no_more(ada: User, olga: User, status: str) -> None:
    application, now = application_make(ada), clock.now()
    approve = {"application": application, "tier": "community", "reviewer": olga, "reason": "Fine.", "now": now}
    if status == "approved":
        services.application_approve(**approve)
    elif status == "rejected":
        services.application_reject(application=application, reviewer=olga, reason="No.", now=now)
    else:
        services.application_withdraw(application=application, actor=ada, now=now)
    events = StatusEvent.objects.count()
    with pytest.raises(MoveNotAllowed):
        services.application_approve(**approve)
    with pytest.raises(MoveNotAllowed):
        services.application_withdraw(application=application, actor=ada, now=now)
    assert StatusEvent.objects.count() == events
    assert Provider.objects.count() == (status == "approved")


def test_a_draft_cannot_be_approved(ada: User, olga: User) -> None:
    draft = application_make(ada, submit=False)
    with pytest.raises(MoveNotAllowed):
        services.application_approve(application=draft, tier="community", reviewer=olga, reason="x", now=clock.now())
    assert not Provider.objects.exists() and not EnrolmentToken.objects.exists() and not Notification.objects.exists()


def test_nobody_reviews_their_own_application(olga: User) -> None:
    application = application_make(olga)
    with pytest.raises(Denied):
        services.application_approve(
            application=application, tier="community", reviewer=olga, reason="Me.", now=clock.now()
        )
    assert not Provider.objects.exists()


@pytest.mark.parametrize(
    ("field", "changes"),
    [("tier", {"tier": "gold"}), ("reason", {"reason": ""}), ("approved_machines", {"approved_machines": 0})],
)
def test_a_bad_decision_is_refused_and_nothing_moves(
    ada: User, olga: User, field: str, changes: dict[str, Any]
) -> None:
    application = application_make(ada)
    decision: dict[str, Any] = {"tier": "community", "reason": "Fine."} | changes
    with pytest.raises(Invalid) as refused:
        services.application_approve(application=application, reviewer=olga, now=clock.now(), **decision)
    assert list(refused.value.fields) == [field]
    application.refresh_from_db()
    assert application.status == "submitted" and not Provider.objects.exists()


def test_a_second_approval_grows_the_fleet(ada: User, olga: User) -> None:
    provider = provider_make(ada, reviewer=olga)
    again = provider_make(ada, reviewer=olga, tier="community")
    assert again.pk == provider.pk
    again.refresh_from_db()
    assert (again.approved_machines, again.tier) == (16, "community")


@pytest.mark.parametrize(
    ("changes", "why_not"),
    [
        ({}, ()),
        ({"company": " "}, ("no_company",)),
        ({"ups": "some"}, ("ups_not_all",)),
        ({"commitment_months": 3}, ("short_commitment",)),
        ({"groups": (GROUP, replace(GROUP, **SCHEDULED))}, ("not_always_on",)),
        ({"company": "", "ups": "none"}, ("no_company", "ups_not_all")),
    ],
)
def test_the_tier_rule_proposes_and_says_why_not(ada: User, changes: dict[str, Any], why_not: tuple[str, ...]) -> None:
    proposal = application_proposal(application_make(ada, data=replace(APPLICATION, **changes)))
    assert proposal.why_not == why_not
    assert proposal.tier == ("community" if why_not else "enterprise")


def test_the_checks_show_an_unlisted_card(ada: User) -> None:
    checks = application_checks(application_make(ada, data=with_group(gpu_model="other", other_model="B200")))
    assert [(check.ok, check.found) for check in checks][:2] == [(False, "B200"), (True, "")]


def test_the_queue_is_oldest_first_and_holds_what_waits_for_us(ada: User, ravi: User, eve: User, olga: User) -> None:
    later = application_make(ada, now=datetime(2026, 3, 3, tzinfo=UTC))
    first = application_make(ravi, now=datetime(2026, 3, 2, tzinfo=UTC))
    application_make(eve, submit=False)
    assert list(review_queue()) == [first, later]
    services.application_request_information(
        application=first, reviewer=olga, question="?", sections=[], now=clock.now()
    )
    assert list(review_queue()) == [later]


@pytest.mark.parametrize(
    ("since", "until", "days"),
    [
        ("2026-03-06T17:00", "2026-03-06T23:00", 0),  # Friday
        ("2026-03-06T17:00", "2026-03-08T12:00", 0),  # to Sunday
        ("2026-03-06T17:00", "2026-03-09T08:00", 1),  # to Monday
        ("2026-03-02T09:00", "2026-03-05T09:00", 3),
        ("2026-03-02T09:00", "2026-03-16T09:00", 10),
        ("2026-03-07T09:00", "2026-03-09T09:00", 1),  # from Saturday
    ],
)
def test_age_counts_business_days(since: str, until: str, days: int) -> None:
    first, last = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (since, until))
    assert business_days(first, last) == days
