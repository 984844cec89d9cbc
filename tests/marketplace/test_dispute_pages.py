"""Disputes on pages, by the API and in the admin: who sees what, and who decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from accounts.selectors import party_of
from marketplace.selectors import dispute_offers, job_of
from marketplace.services import dispute_decide
from tests.factories.disputes import disputed, ran, seller
from tests.marketplace.conftest import At

SignedIn = Callable[[User], Client]


@pytest.mark.django_db
@pytest.mark.usefixtures("books")
class TestPages:
    def test_a_customer_disputes_on_the_jobs_page(self, ravi: User, at: At, signed_in: SignedIn) -> None:
        told, client = ran(ravi, at), signed_in(ravi)
        page, path = f"/jobs/{told.job.pk}/", f"/jobs/{told.job.pk}/attempts/1/dispute/"
        assert "Dispute the charge of attempt 1" in client.get(page).content.decode()
        empty = client.post(path, {"kind": "too_slow", "words": ""})
        assert empty.status_code == 400 and "details open" not in empty.content.decode()
        assert client.post(path, {"kind": "too_slow", "words": "Slow <b>as</b> mud."}).status_code == 302
        text = client.get(page).content.decode()
        assert "We write to you when it is decided." in text
        assert "Dispute the charge of attempt 1" not in text
        again = client.post(path, {"kind": "other", "words": "More."})
        assert again.status_code == 400 and "disputed before" in again.content.decode()

    def test_a_provider_sees_it_on_the_earnings_page_and_not_whose_it_is(
        self, ravi: User, olga: User, at: At, signed_in: SignedIn
    ) -> None:
        told = ran(ravi, at)
        dispute = disputed(told, ravi, at(700), words="My secret project was slow.")
        client = signed_in(seller(told).members.get().user)
        text = client.get("/provider/earnings/").content.decode()
        assert "Much slower than it should have been" in text and "Frozen now: 0.54" in text
        for secret in ("secret project", "ravi", str(told.job.pk), told.job.image):
            assert secret not in text
        dispute_decide(dispute=dispute, refund_micro=200_000, reason="Throttled for a while.", actor=olga, now=at(900))
        text = client.get("/provider/earnings/").content.decode()
        assert "Granted in part" in text and "Throttled for a while." in text and "Frozen now" not in text

    def test_the_api_disputes_and_lists(self, ravi: User, at: At, signed_in: SignedIn) -> None:
        told, client = ran(ravi, at), signed_in(ravi)
        path = f"/api/v1/jobs/{told.job.pk}/attempts/1/dispute"
        body = json.dumps({"kind": "too_much", "words": "It ran five minutes."})
        answers = [client.post(path, body, content_type="application/json") for _twice in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json() == answers[1].json()
        (row,) = client.get("/api/v1/billing/disputes").json()["disputes"]
        assert (row["disputed_micro"], row["refund_micro"], row["status"], row["attempt"]) == (600_000, None, "open", 1)
        assert client.post(f"{path}2", body, content_type="application/json").status_code == 404

    def test_an_operator_decides_in_the_admin(
        self, ravi: User, olga: User, at: At, signed_in: SignedIn, settings: Any
    ) -> None:
        settings.DEMO = True  # the second factor is another test's
        told = ran(ravi, at)
        dispute = disputed(told, ravi, at(700))
        client, path = signed_in(olga), f"/admin/marketplace/dispute/{dispute.pk}/"
        assert "Disputes to decide" in client.get("/admin/").content.decode()
        assert f"{path}do/grant/" in client.get(f"{path}change/").content.decode()
        too_much = client.post(f"{path}do/grant/", {"refund": "0.61", "reason": "More."})
        assert too_much.status_code == 200 and "allowed: 0 to 0.600000 USDC" in too_much.content.decode().replace(
            "&#x27;", "'"
        )
        assert client.post(f"{path}do/grant/", {"refund": "0", "reason": "x"}).status_code == 200
        done = client.post(f"{path}do/grant/", {"refund": "0.25", "reason": "Throttled."})
        assert done.status_code == 302
        dispute.refresh_from_db()
        assert (dispute.status, dispute.refund_micro, dispute.decided_by) == ("granted", 250_000, olga)
        assert f"{path}do/grant/" not in client.get(f"{path}change/").content.decode()

    def test_the_customers_history_names_the_job(self, ravi: User, olga: User, at: At, signed_in: SignedIn) -> None:
        told = ran(ravi, at, name="Night run")
        dispute = disputed(told, ravi, at(700))
        dispute_decide(dispute=dispute, refund_micro=100_000, reason="Half.", actor=olga, now=at(900))
        text = signed_in(ravi).get("/billing/").content.decode()
        assert "Given back after a dispute" in text and "Night run" in text and "+0.100000" in text

    def test_offers_say_until_when(self, ravi: User, at: At) -> None:
        told = ran(ravi, at)
        (offer,) = dispute_offers(job_of(customer=party_of(ravi), job_id=told.job.pk), now=at(700))
        assert (offer.offered, offer.amount_micro) == (True, 600_000)
        assert offer.until == told.attempt.ended_at + timedelta(hours=72)  # type: ignore[operator]
