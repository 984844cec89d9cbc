"""Earnings and statements as their owners see them: pages, API, the jobs that issue them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Notification, User
from accounts.selectors import party_of
from billing.models import Document, Payout, PayoutRun
from billing.services import earnings_mature, payout_cycle_set, payouts_freeze, policy_set, receipts_issue
from core import clock
from marketplace.models import Job
from marketplace.services import (
    monthly_statements_issue,
    payout_statements_issue,
    rental_settle,
    usage_settle,
    windows_close,
)
from marketplace.tasks import monthly_statements_issue as monthly_job
from providers.models import Gpu, Provider
from tests.factories.billing import USDC, earned, funded
from tests.factories.documents import deposited, destination_for, receipt_of, reserved, rules, settled
from tests.factories.marketplace import listing_new, machine_new, provider_of_user, story

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]
NOW = datetime(2026, 12, 2, 9, 30, tzinfo=UTC)  # a Wednesday; the week began on 30 November
WEEK, DAY, HOUR = timedelta(days=7), timedelta(days=1), timedelta(hours=1)


@pytest.fixture
def at_nine() -> Any:
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def seller(ada: User, at_nine: None) -> Provider:
    rules(NOW - 30 * DAY, maturing_seconds=48 * 3600, maturing_new_provider_seconds=48 * 3600)
    policy_set(name="payout_minimum_weekly_micro", value=25 * USDC, valid_from=NOW - 29 * DAY)
    return provider_of_user(ada)


def page_of(client: Client, path: str = "/provider/earnings/") -> str:
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return answer.content.decode()


def test_a_week_under_way(seller: Provider, signed_in: SignedIn, ada: User, ravi: User) -> None:
    """Wednesday: 9 USDC of Monday are pending until today, 12.40 of last week are payable, 25 are needed."""
    gpu = Gpu.objects.get(machine=machine_new(seller))
    earned(seller.party, ravi, 12_400_000, fee_bps=0, at=NOW - 6 * DAY)
    earned(seller.party, ravi, 10 * USDC, gpus=[(gpu.pk, "L4")], at=datetime(2026, 11, 30, 12, tzinfo=UTC))
    earnings_mature(now=NOW)
    client = signed_in(ada)
    found = client.get("/provider/earnings/").context
    assert (found["period"].start, found["period_micro"], found["before_micro"]) == (
        date(2026, 11, 30),
        9 * USDC,
        12_400_000,
    )
    assert (found["pending_micro"], found["payable_micro"], found["minimum_micro"]) == (
        9 * USDC,
        12_400_000,
        25 * USDC,
    )
    assert [(row.on, row.amount_micro) for row in found["maturing"]] == [(date(2026, 12, 2), 9 * USDC)]
    assert found["next_payout"] == date(2026, 12, 7)
    assert [row["gpu"] for row in found["gpu_rows"]] == [gpu]
    text = page_of(client)
    for part in ("12.40 of 25.00 USDC", "No payout destination is set", "7 Dec 2026", "every Monday", "<rect"):
        assert part in text, part


def test_a_month_is_the_period_of_who_is_paid_monthly(
    seller: Provider, signed_in: SignedIn, ada: User, ravi: User
) -> None:
    payout_cycle_set(party=seller.party, kind="monthly", now=NOW - WEEK)
    earned(seller.party, ravi, 4 * USDC, fee_bps=0, at=datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC))
    earned(seller.party, ravi, 3 * USDC, fee_bps=0, at=datetime(2026, 12, 1, tzinfo=UTC))
    found = signed_in(ada).get("/provider/earnings/").context
    assert (found["period"].start, found["period"].end) == (date(2026, 12, 1), date(2027, 1, 1))
    assert (found["period_micro"], found["before_micro"]) == (3 * USDC, 4 * USDC)
    assert found["next_payout"] == date(2027, 1, 1)


def test_days_are_half_open_and_utc_whatever_the_viewers_zone(
    seller: Provider, signed_in: SignedIn, ada: User, ravi: User
) -> None:
    ada.time_zone = "America/New_York"
    ada.save(update_fields=["time_zone"])
    for at in (
        datetime(2026, 11, 9, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 11, 10, tzinfo=UTC),
        datetime(2026, 11, 10, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 11, 11, tzinfo=UTC),
    ):
        earned(seller.party, ravi, USDC, fee_bps=0, at=at)
    client = signed_in(ada)
    text = page_of(client, "/provider/earnings/?since=2026-11-10&until=2026-11-10")
    assert "10 Nov 2026 – 10 Nov 2026: <strong>2.000000 USDC" in text
    body = client.get("/api/v1/provider/earnings?since=2026-11-10&until=2026-11-11").json()
    assert (body["total_micro"], body["by_day"]) == (2 * USDC, [{"day": "2026-11-10", "amount_micro": 2 * USDC}])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=2026-11-10&until=2026-11-09", "until"),
        ("since=yesterday&until=2026-11-09", "since"),
        ("since=2020-01-01&until=2026-11-09", "until"),
        ("since=1999-01-01&until=1999-01-02", "since"),
        ("since=&until=", "since"),
        ("since=9999-12-31&until=9999-12-31", "since"),
    ],
)
def test_a_bad_range_is_said_beside_its_field(
    seller: Provider, signed_in: SignedIn, ada: User, query: str, field: str
) -> None:
    answer = signed_in(ada).get(f"/provider/earnings/?{query}")
    assert answer.status_code == 400
    assert list(answer.context["dates"].errors) == [field]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=2026-11-10&until=2026-11-10", "until"),
        ("until=2026-02-30", "until"),
        ("since=2020-01-01&until=2026-11-09", "until"),
        ("since=0001-01-01&until=0001-01-02", "since"),
        ("until=2026-W10x", "until"),
    ],
)
def test_the_api_names_the_field_of_a_bad_range(
    seller: Provider, signed_in: SignedIn, ada: User, query: str, field: str
) -> None:
    answer = signed_in(ada).get(f"/api/v1/provider/earnings?{query}")
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])


def test_every_reason_for_not_yet_is_said(seller: Provider, signed_in: SignedIn, ada: User, ravi: User) -> None:
    destination_for(seller.party, usable_from=NOW + DAY)
    earned(seller.party, ravi, 30 * USDC, fee_bps=0, at=NOW - 9 * DAY)
    earnings_mature(now=NOW)
    payouts_freeze(frozen=True, reason="drill", actor=None, now=NOW)
    text = page_of(signed_in(ada))
    for part in ("can be used from", "Payouts are paused for all", "usable from"):
        assert part in text, part
    assert "Below the minimum" not in text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("awaiting_release", "wait for two of our people"),
        ("blocked", "is held up"),
        ("unknown", "never sent twice"),
    ],
)
def test_a_reserved_payout_says_what_it_waits_for(
    seller: Provider, signed_in: SignedIn, ada: User, ravi: User, status: str, words: str
) -> None:
    destination_for(seller.party, usable_from=NOW - 20 * DAY)
    earned(seller.party, ravi, 30 * USDC, fee_bps=0, at=NOW - 9 * DAY)
    earnings_mature(now=NOW - 6 * DAY)
    payout = reserved(seller.party, on=NOW)
    assert payout is not None
    Payout.objects.filter(pk=payout.pk).update(status=status)
    PayoutRun.objects.filter(pk=payout.run_id).update(status="paused")
    text = page_of(signed_in(ada))
    assert words in text and "30.00 USDC" in text
    assert ("run is paused" in text) is (status == "awaiting_release")


def paid(seller: Provider, ravi: User, weeks: int) -> list[Payout]:
    """So many settled payouts of 30 USDC, a week apart, the last one this Monday."""
    destination_for(seller.party, usable_from=NOW - 300 * DAY)
    rules(NOW - 299 * DAY)
    made = []
    for week in range(weeks, 0, -1):
        monday = datetime(2026, 11, 30, tzinfo=UTC) - (week - 1) * WEEK
        earned(seller.party, ravi, 30 * USDC, fee_bps=0, at=monday - 4 * DAY)
        earnings_mature(now=monday - HOUR)
        payout = reserved(seller.party, on=monday + HOUR)
        assert payout is not None
        made.append(settled(payout, at=monday + 2 * HOUR))
    return made


def test_payouts_have_their_transaction_and_statement_and_are_paged(
    seller: Provider, signed_in: SignedIn, ada: User, ravi: User, settings: Any
) -> None:
    settings.SOLANA_EXPLORER_URL = "https://explorer.example/tx/{signature}"
    made = paid(seller, ravi, 12)
    assert payout_statements_issue(now=NOW) == 12 and payout_statements_issue(now=NOW) == 0
    client = signed_in(ada)
    first = client.get("/provider/earnings/")
    assert [row.id for row in first.context["payouts"]] == [payout.pk for payout in reversed(made)][:10]
    second = client.get("/provider/earnings/" + first.context["next_url"].partition("#")[0])
    assert [row.id for row in second.context["payouts"]] == [payout.pk for payout in reversed(made)][10:]
    text = first.content.decode()
    assert f"https://explorer.example/tx/{made[-1].attempts.get().signature}" in text
    assert f"/billing/documents/{made[-1].statement.pk}/pdf/" in text
    assert client.get("/provider/earnings/?cursor=nonsense").status_code == 404
    body = client.get("/api/v1/provider/payouts").json()
    assert body["payouts"][0]["statement_id"] == str(made[-1].statement.pk)
    assert len(client.get("/api/v1/provider/statements").json()["documents"]) == 12


def test_a_statement_names_machine_and_company(seller: Provider, ravi: User) -> None:
    machine = machine_new(seller)
    seller.application.company = "王喆 GmbH"
    seller.application.save(update_fields=["company"])
    earned(seller.party, ravi, 30 * USDC, gpus=[(Gpu.objects.get(machine=machine).pk, "L4")], at=NOW - 6 * DAY)
    earnings_mature(now=datetime(2026, 11, 29, 20, tzinfo=UTC))
    destination_for(seller.party, usable_from=NOW - 20 * DAY)
    payout = reserved(seller.party, on=NOW)
    assert payout is not None
    settled(payout, at=NOW)
    payout_statements_issue(now=NOW)
    facts = Document.objects.get().facts
    assert facts["addressee"]["name"] == "王喆 GmbH"
    assert facts["lines"][0]["name"].startswith(machine.name)


def test_the_history_names_jobs_and_receipts_and_shows_no_reference(
    signed_in: SignedIn, ravi: User, at_nine: None
) -> None:
    told = story(ravi, now=NOW, name="train-encoder")
    for state in ("pulling", "starting", "running"):
        told.agent.observe(told.attempt, state, at=NOW, elapsed=0 if state == "running" else None)
    told.agent.observe(told.attempt, "running", at=NOW + HOUR, elapsed=3600)
    windows_close(now=NOW + HOUR)
    usage_settle(now=NOW + HOUR)
    client = signed_in(ravi)
    while_running = page_of(client, "/billing/")
    assert while_running.count("train-encoder") == 2  # what is set aside, and what was charged
    told.agent.end(told.attempt, at=NOW + HOUR, reason="gpu_lost", exit_code=None, elapsed=3600)
    rental_settle(rental_id=told.attempt.rental.pk, now=NOW + HOUR)
    deposited(ravi, 5 * USDC, at=NOW + HOUR)
    receipts_issue(now=NOW + HOUR)
    text = page_of(client, "/billing/")
    for part in ("GPU usage", "Service credit", "train-encoder", f"/jobs/{told.job.pk}/", "R-2026-000001"):
        assert part in text, part
    for raw in ("usage:", "credit:", "deposit:", "hold:", str(told.attempt.rental.pk)):
        assert raw not in text, raw
    rows = client.get("/api/v1/billing/history").json()["history"]
    assert {(row["kind"], row["of"]) for row in rows} >= {
        ("usage", "train-encoder"),
        ("service_credit", "train-encoder"),
    }
    assert {row["job_id"] for row in rows if row["kind"] != "deposit"} == {str(Job.objects.get().pk)}


def test_a_monthly_statement_is_issued_once_told_once_and_names_its_jobs(
    signed_in: SignedIn, ravi: User, at_nine: None
) -> None:
    funded(ravi, 50 * USDC, now=datetime(2026, 11, 3, tzinfo=UTC))
    early = datetime(2026, 12, 1, 1, 59, tzinfo=UTC)
    assert monthly_statements_issue(now=early) == 0  # still being posted
    assert monthly_job() == 1
    assert monthly_job() == 0  # its slot is taken
    assert monthly_statements_issue(now=NOW) == 0  # and without the slot there is nothing to do
    document = Document.objects.get()
    notice = Notification.objects.get(kind="monthly_statement")
    assert notice.user == ravi and notice.url == f"/billing/documents/{document.pk}/"
    assert "November 2026" in notice.subject and "50.000000" in notice.body
    text = page_of(signed_in(ravi), notice.url)
    assert "Closing balance" in text and "50.000000" in text
    assert not [each for each in mail.outbox if "usage:" in each.body]


# One and many cost the same


def queries_of(client: Client, path: str) -> int:
    client.get(path)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    return len(queries)


def test_ten_of_everything_cost_the_earnings_page_what_one_costs(
    seller: Provider, signed_in: SignedIn, ada: User, ravi: User
) -> None:
    client = signed_in(ada)
    gpu = listing_new(seller).machine.gpus.get()
    earned(seller.party, ravi, USDC, gpus=[(gpu.pk, "L4")], at=NOW - HOUR)
    paid(seller, ravi, 1)
    paths = ("/provider/earnings/", "/api/v1/provider/earnings", "/api/v1/provider/payouts")
    one = [queries_of(client, path) for path in paths]
    for model in ("h100-sxm-80gb", "a100-pcie-80gb", "l4-24gb"):
        for gpu in listing_new(seller, gpus=3, model=model).machine.gpus.all():
            earned(seller.party, ravi, USDC, gpus=[(gpu.pk, model)], at=clock.now() - HOUR)
    for week in range(2, 8):
        earned(seller.party, ravi, USDC, at=NOW - week * DAY)
    assert [queries_of(client, path) for path in paths] == one
    assert one[0] <= 55, one


def test_twenty_movements_cost_the_billing_page_what_one_of_each_costs(
    signed_in: SignedIn, ravi: User, ada: User, at_nine: None
) -> None:
    client = signed_in(ravi)
    receipt_of(ravi, NOW)
    earned(ada, ravi, USDC)
    one = queries_of(client, "/billing/"), queries_of(client, "/billing/documents/")
    for _ in range(9):
        receipt_of(ravi, NOW)
        earned(ada, ravi, USDC)
    assert (queries_of(client, "/billing/"), queries_of(client, "/billing/documents/")) == one
    assert party_of(ravi) and one[0] <= 20, one


def test_the_days_asked_for_stand_in_the_form_in_every_language(
    seller: Provider, signed_in: SignedIn, ada: User
) -> None:
    ada.language = "zh-hans"
    ada.save(update_fields=["language"])
    text = page_of(signed_in(ada))
    assert 'value="2026-11-30"' in text and 'value="2026-12-06"' in text


def test_the_guide_of_the_api_knows_the_routes(client: Client) -> None:
    paths = client.get("/api/schema/?format=json", headers={"accept": "application/json"}).json()["paths"]
    file = paths["/api/v1/billing/documents/{document_id}/{form}"]["get"]["responses"]["200"]["content"]
    assert set(file) == {"application/pdf", "text/csv"}
    for path in ("earnings", "payouts", "statements"):
        assert f"/api/v1/provider/{path}" in paths
