"""The pages: what one sees, what one never sees, and that every refusal stands beside its field."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import User
from accounts.selectors import party_of
from agent_protocol.messages import LogChunk as Message
from marketplace.jobsecrets import job_unseal
from marketplace.models import Job, Listing, Rate
from marketplace.services import job_place, listings_rank, log_append, rental_settle
from providers.models import Machine, Provider
from tests.factories.billing import funded
from tests.factories.marketplace import (
    Agent,
    job_new,
    listing_new,
    live_attempt,
    machine_new,
    provider_new,
    provider_of_user,
    story,
)
from tests.marketplace.conftest import At

pytestmark = pytest.mark.django_db

PRIVATE = {"registry_username": "ravi", "registry_password": "hunter2"}

SignedIn = Callable[[User], Client]
MARKET_QUERIES = 8
"""Models for the filter and its check, search's four, navigation's none: whatever is on offer."""


class TestMarket:
    def test_anybody_sees_what_is_offered_and_by_whom(self, client: Client) -> None:
        listing = listing_new(rate_micro=380_000)
        page = client.get("/market/").content.decode()
        assert "0.38" in page
        assert listing.provider.party.handle in page
        assert listing.machine.name not in page
        detail = client.get(reverse("marketplace_listing", args=[listing.pk])).content.decode()
        assert "Why it ranks here" in detail
        assert listing.machine.name not in detail
        assert "Legal" not in detail

    def test_a_featured_row_is_labelled_and_stands_once_on_the_first_page(self, client: Client) -> None:
        listing_new(provider_new(tier="enterprise"))
        listing_new(provider_new())
        page = client.get("/market/").content.decode()
        assert page.count("Enterprise, featured") == 1
        assert page.count("?listing=") == 2

    def test_a_hidden_listing_is_not_there(self, client: Client) -> None:
        listing = listing_new()
        Listing.objects.filter(pk=listing.pk).update(visible=False, hidden_reason="draining")
        assert client.get(reverse("marketplace_listing", args=[listing.pk])).status_code == 404

    def test_a_bad_filter_is_told_beside_it(self, client: Client) -> None:
        response = client.get("/market/?gpus=99&max_price=cheap")
        assert response.status_code == 400
        page = response.content.decode()
        assert "allowed: 1 to 32" in page
        assert "allowed: a decimal number" in page

    def test_an_empty_result_offers_what_to_leave_out(self, client: Client) -> None:
        listing_new(rate_micro=400_000)
        page = client.get("/market/?country=US&max_price=1").content.decode()
        assert "without “country”" in page
        assert "without “max_price”" not in page

    def test_a_forged_cursor_is_refused(self, client: Client) -> None:
        assert client.get("/market/?cursor=AAAA").status_code == 400

    @pytest.mark.parametrize("offered", [1, 4])
    def test_queries_do_not_grow(
        self, client: Client, offered: int, django_assert_max_num_queries: Callable[[int], object]
    ) -> None:
        provider = provider_new()
        for _each in range(offered):
            listing_new(provider)
        with django_assert_max_num_queries(MARKET_QUERIES):  # type: ignore[attr-defined]
            assert client.get("/market/").status_code == 200


FORM = {
    "image": "python:3.12",
    "command": "python -c 'print(1)'",
    "gpu_count": "1",
    "max_rate": "1",
    "disk_gb": "20",
    "time_limit_s": "1",
    "disconnect_grace_s": "30",
    "max_attempts": "1",
}


class TestLaunch:
    def test_a_job_is_queued_as_written(self, ravi: User, signed_in: SignedIn) -> None:
        funded(ravi, 10_000_000)
        form = FORM | {"environment": "A=1\nB=x=y", "secrets": "TOKEN=abc"}
        response = signed_in(ravi).post("/jobs/new/", form)
        job = Job.objects.get()
        assert response["Location"] == f"/jobs/{job.pk}/"
        assert (job.command, job.environment) == (["python", "-c", "print(1)"], {"A": "1", "B": "x=y"})
        assert (job.time_limit_s, job.disconnect_grace_s, job.max_rate_micro) == (3600, 1800, 1_000_000)

    def test_a_private_images_login_is_taken_sealed_and_never_shown_again(
        self, ravi: User, signed_in: SignedIn
    ) -> None:
        funded(ravi, 10_000_000)
        login = {"registry_username": "ravi", "registry_password": " hunter2 "}
        again = signed_in(ravi).post("/jobs/new/", FORM | login | {"gpu_count": "40"})
        assert Job.objects.count() == 0
        assert "hunter2" not in again.content.decode()
        signed_in(ravi).post("/jobs/new/", FORM | login)
        sealed = Job.objects.get().secrets
        assert sealed is not None
        assert job_unseal(bytes(sealed)).login == {
            "registry": "docker.io",
            "username": "ravi",
            "password": " hunter2 ",
        }

    def test_the_form_says_what_becomes_of_a_login(self, ravi: User, signed_in: SignedIn) -> None:
        page = signed_in(ravi).get("/jobs/new/").content.decode()
        assert "used for that pull at that registry alone, and deleted when the job ends." in page

    def test_the_form_says_who_can_read_along(self, ravi: User, signed_in: SignedIn) -> None:
        page = signed_in(ravi).get("/jobs/new/").content.decode()
        assert "The owner of a machine can read what runs on it." in page

    def test_on_a_listing_it_starts_with_the_price_seen(self, ravi: User, signed_in: SignedIn) -> None:
        listing = listing_new(rate_micro=450_000)
        funded(ravi, 10_000_000)
        where = f"/jobs/new/?listing={listing.pk}"
        page = signed_in(ravi).get(where)
        assert page.context["form"]["max_rate"].value() == "0.45"
        signed_in(ravi).post(where, FORM | {"max_rate": "0.45"})
        assert Job.objects.get().listing_id == listing.pk

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"image": "localhost/x"}, "image"),
            ({"command": "echo 'open"}, "command"),
            ({"environment": "no equals sign"}, "environment"),
            ({"environment": "LD_PRELOAD=x"}, "environment"),
            ({"registry_username": "ravi"}, "registry_password"),
            ({"registry_password": "hunter2"}, "registry_username"),
            ({"gpu_count": "40"}, "gpu_count"),
            ({"max_rate": "cheap"}, "max_rate"),
            ({"max_rate": "0"}, "max_rate"),
            ({"time_limit_s": "0"}, "time_limit_s"),
            ({"disk_gb": ""}, "disk_gb"),
        ],
    )
    def test_a_refusal_stands_beside_its_field(
        self, ravi: User, signed_in: SignedIn, change: dict[str, str], field: str
    ) -> None:
        funded(ravi, 100_000_000)
        response = signed_in(ravi).post("/jobs/new/", FORM | change)
        assert response.status_code == 200
        assert list(response.context["form"].errors) == [field]
        assert Job.objects.count() == 0

    def test_without_money_it_says_how_much_is_missing(self, ravi: User, signed_in: SignedIn) -> None:
        response = signed_in(ravi).post("/jobs/new/", FORM)
        assert "needed: 1.00 USDC" in response.content.decode()
        assert Job.objects.count() == 0

    def test_the_estimate_follows_what_is_typed(self, ravi: User, signed_in: SignedIn) -> None:
        client = signed_in(ravi)
        values = {"max_rate": "0.38", "gpu_count": "2", "time_limit_s": "24"}
        page = client.get("/jobs/new/estimate/", values).content.decode()
        assert "0.76 USDC" in page
        assert "18.24 USDC" in page
        for nonsense in ({"max_rate": "NaN"}, {"max_rate": "1e9", "gpu_count": "x"}, {"time_limit_s": "Infinity"}):
            assert client.get("/jobs/new/estimate/", values | nonsense).status_code == 200


class TestJob:
    def test_status_cost_and_output_are_there(self, ravi: User, signed_in: SignedIn, at: At) -> None:
        told = story(ravi, now=at(-120), name="train")
        told.agent.observe(told.attempt, "running", at=at(-100), elapsed=0)
        chunk = Message.of(
            token=told.agent.token(told.attempt), offset=0, content=b"\x1b[1mepoch\x1b[0m <b>1</b>\n", final=True
        )
        log_append(machine=told.agent.machine, attempt_id=told.attempt.pk, chunk=chunk, now=at(-50))
        client = signed_in(ravi)
        page = client.get(f"/jobs/{told.job.pk}/").content.decode()
        assert "epoch &lt;b&gt;1&lt;/b&gt;" in page
        assert "per hour while it runs" in page
        assert client.get(f"/jobs/{told.job.pk}/live/").status_code == 200
        text = client.get(f"/jobs/{told.job.pk}/log/")
        assert (text["Content-Type"], text["X-Content-Type-Options"]) == ("text/plain; charset=utf-8", "nosniff")
        assert text.content == b"epoch <b>1</b>\n"
        told.agent.end(told.attempt, at=at(0), elapsed=100)
        assert client.get(f"/jobs/{told.job.pk}/live/").status_code == 286

    def test_cancel_and_run_again(self, ravi: User, signed_in: SignedIn) -> None:
        funded(ravi, 10_000_000)
        job, client = job_new(ravi), signed_in(ravi)
        client.post(f"/jobs/{job.pk}/cancel/")
        job.refresh_from_db()
        assert job.status == "cancelled"
        client.post(f"/jobs/{job.pk}/rerun/")
        assert Job.objects.get(rerun_of=job).status == "queued"

    def test_running_again_asks_for_what_was_deleted(self, ravi: User, signed_in: SignedIn) -> None:
        funded(ravi, 10_000_000)
        login = {"registry_username": "ravi", "registry_password": "hunter2"}
        job, client = job_new(ravi, image="ghcr.io/ravi/x:1", secrets={"TOKEN": "x"}, **login), signed_in(ravi)
        client.post(f"/jobs/{job.pk}/cancel/")
        page = client.get(f"/jobs/{job.pk}/").content.decode()
        assert f'href="/jobs/{job.pk}/rerun/"' in page
        assert f'action="/jobs/{job.pk}/rerun/"' not in page
        form = client.get(f"/jobs/{job.pk}/rerun/")
        assert list(form.context["form"].fields) == ["registry_username", "registry_password", "secrets"]
        assert "The login at its registry was deleted" in form.content.decode()
        for given, field in (({}, "registry_username"), (login, "secrets")):
            refused = client.post(f"/jobs/{job.pk}/rerun/", given)
            assert field in refused.context["form"].errors
            assert "hunter2" not in refused.content.decode()
        assert not Job.objects.filter(rerun_of=job).exists()
        client.post(f"/jobs/{job.pk}/rerun/", {**login, "secrets": "TOKEN=again"})
        assert Job.objects.get(rerun_of=job).private_image

    def test_the_list_pages_on(self, ravi: User, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch) -> None:
        funded(ravi, 10_000_000)
        jobs = [job_new(ravi, name=f"job-{number}") for number in range(30)]
        client = signed_in(ravi)
        first = client.get("/jobs/")
        assert len(first.context["jobs"]) == 25
        second = client.get("/jobs/" + first.context["next_url"])
        assert [row[0].pk for row in second.context["jobs"]] == [job.pk for job in reversed(jobs[:5])]
        assert client.get("/jobs/?cursor=forged").status_code == 404


SECRET_WORDS = ("very-private-image", "private-command", "PRIVATE_KEY", "private-value", "private-output")


class TestPrivacy:
    def test_a_provider_sees_work_and_money_and_nothing_of_the_customer(
        self, ada: User, ravi: User, signed_in: SignedIn, at: At
    ) -> None:
        provider = provider_of_user(ada)
        listing = listing_new(provider, rate_micro=3_600_000)
        funded(ravi, 100_000_000)
        job = job_new(
            ravi,
            image="ghcr.io/x/very-private-image",
            command=("private-command",),
            environment={"PRIVATE_KEY": "private-value"},
            name="private-command",
            listing_id=listing.pk,
            max_rate_micro=3_600_000,
            now=at(0),
        )

        job_place(job_id=job.pk, now=at(0))
        attempt, agent = live_attempt(job), Agent(listing.machine)
        agent.observe(attempt, "running", at=at(1), elapsed=0)
        chunk = Message.of(token=agent.token(attempt), offset=0, content=b"private-output", final=True)
        log_append(machine=listing.machine, attempt_id=attempt.pk, chunk=chunk, now=at(2))
        agent.end(attempt, at=at(101), elapsed=100)
        rental_settle(rental_id=attempt.rental.pk, now=at(102))
        listings_rank(now=at(103))
        client = signed_in(ada)
        for where in (f"/provider/machines/{listing.machine_id}/", "/provider/earnings/", "/provider/pricing/"):
            page = client.get(where).content.decode()
            assert not [word for word in (*SECRET_WORDS, "ravi", str(job.pk)) if word in page], where
        assert "0.09" in client.get("/provider/earnings/").content.decode()

    def test_a_customer_sees_handle_and_country_only(self, ravi: User, signed_in: SignedIn, at: At) -> None:
        told = story(ravi, now=at(0))
        page = signed_in(ravi).get(f"/jobs/{told.job.pk}/").content.decode()
        assert told.listing.provider.party.handle in page
        assert told.listing.machine.name not in page

    def test_secrets_are_on_no_page(self, ravi: User, signed_in: SignedIn, at: At) -> None:
        told = story(ravi, now=at(0), secrets={"HIDDEN_NAME": "hidden-value"}, **PRIVATE)
        page = signed_in(ravi).get(f"/jobs/{told.job.pk}/").content.decode()
        assert "HIDDEN_NAME" not in page
        assert "hidden-value" not in page
        assert "hunter2" not in page


class TestProvider:
    def test_a_price_is_set_and_a_bad_one_refused_beside_its_field(self, ada: User, signed_in: SignedIn) -> None:
        provider = provider_of_user(ada)
        machine_new(provider)
        client = signed_in(ada)
        assert "Set a rate for this model." in client.get("/provider/pricing/").content.decode()
        refused = client.post("/provider/pricing/", {"model": "l4-24gb", "rate": "0"})
        assert refused.status_code == 400
        assert "0.0001 to 1,000 USDC" in refused.content.decode()
        assert Rate.objects.count() == 0
        client.post("/provider/pricing/", {"model": "l4-24gb", "rate": "0.38"})
        assert Rate.objects.get().rate_micro == 380_000
        assert Listing.objects.get().visible
        page = client.get("/provider/pricing/").content.decode()
        assert "Fewer than five providers" in page
        assert "1 of 1" in page

    def test_another_providers_machine_cannot_be_priced(self, ada: User, signed_in: SignedIn) -> None:
        provider_of_user(ada)
        other = machine_new(provider_new())
        response = signed_in(ada).post(
            "/provider/pricing/", {"model": "l4-24gb", "machine": str(other.pk), "rate": "1"}
        )
        assert response.status_code == 404
        assert Rate.objects.count() == 0

    def test_a_machine_is_confirmed_drained_and_resumed(self, ada: User, signed_in: SignedIn) -> None:
        machine = machine_new(provider_of_user(ada), confirmed=False)
        client, where = signed_in(ada), f"/provider/machines/{machine.pk}/"
        for action, status in (
            ("confirm", "active"),
            ("drain", "draining"),
            ("resume", "active"),
            ("retire", "retired"),
        ):
            assert client.post(f"{where}{action}/").status_code == 302
            assert Machine.objects.get(pk=machine.pk).status == status
            assert client.get(where).status_code == 200
        assert client.post(f"{where}explode/").status_code == 404

    def test_earnings_by_dates(self, ada: User, signed_in: SignedIn) -> None:
        provider_of_user(ada)
        client = signed_in(ada)
        assert client.get("/provider/earnings/").status_code == 200
        assert client.get("/provider/earnings/?since=2026-01-01&until=2026-01-31").status_code == 200
        page = client.get("/provider/earnings/?since=2026-02-01&until=2026-01-01").content.decode()
        assert "It lies before the first day." in page

    def test_who_is_no_provider_finds_nothing_here(self, ravi: User, signed_in: SignedIn) -> None:
        for where in ("/provider/pricing/", "/provider/earnings/"):
            assert signed_in(ravi).get(where).status_code == 404
        assert not Provider.objects.filter(party=party_of(ravi)).exists()
