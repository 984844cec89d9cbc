"""The JSON API: the market for everybody, jobs for their owner, one job per Idempotency-Key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from marketplace.models import Job
from tests.factories.billing import funded
from tests.factories.marketplace import job_new, listing_new, provider_new, story
from tests.marketplace.conftest import At
from tests.marketplace.test_logs import append

pytestmark = pytest.mark.django_db

PRIVATE = {"registry_username": "ravi", "registry_password": "hunter2"}
SignedIn = Callable[[User], Client]
BODY: dict[str, Any] = {"image": "python:3.12", "command": ["python", "-V"], "max_rate_micro": 1_000_000}


def post(client: Client, path: str, body: object, **headers: str) -> Any:
    return client.post(path, body, content_type="application/json", headers=headers)


def test_the_market_without_log_in(client: Client) -> None:
    provider = provider_new()
    one, two = listing_new(provider, rate_micro=300_000), listing_new(provider, rate_micro=400_000)
    found = client.get("/api/v1/market/listings?sort=price").json()
    assert [row["id"] for row in found["listings"]] == [str(one.pk), str(two.pk)]
    assert (found["count"], found["next_cursor"]) == (2, None)
    row = client.get(f"/api/v1/market/listings/{one.pk}").json()
    assert (row["model"], row["rate_micro"], row["provider"]) == ("l4-24gb", 300_000, provider.party.handle)
    assert "machine" not in row


@pytest.mark.parametrize(("query", "field"), [("gpus=0", "gpus"), ("cursor=AAAA", "cursor"), ("sort=x", "sort")])
def test_a_bad_query_names_its_field(client: Client, query: str, field: str) -> None:
    response = client.get(f"/api/v1/market/listings?{query}")
    assert response.status_code == 400
    body = response.json()
    assert (body["code"], list(body["fields"])) == ("invalid", [field])


def test_a_job_from_submit_to_cancel(ravi: User, signed_in: SignedIn) -> None:
    funded(ravi, 10_000_000)
    client = signed_in(ravi)
    made = post(client, "/api/v1/jobs", BODY | PRIVATE | {"environment": {"A": " padded "}, "secrets": {"S": "x"}})
    assert made.status_code == 201
    body = made.json()
    assert (body["status"], body["environment"], body["command"]) == ("queued", {"A": " padded "}, ["python", "-V"])
    assert "secrets" not in body
    assert not {"registry_username", "registry_password"} & set(body)
    assert client.get("/api/v1/jobs").json()["jobs"][0]["id"] == body["id"]
    assert client.get(f"/api/v1/jobs/{body['id']}").json()["cost_micro"] == 0
    assert client.get(f"/api/v1/jobs/{body['id']}/log").json()["text"] == ""
    assert post(client, f"/api/v1/jobs/{body['id']}/cancel", {}).json()["status"] == "cancelled"
    assert post(client, f"/api/v1/jobs/{body['id']}/cancel", {}).json()["status"] == "cancelled"


def test_one_key_is_one_job(ravi: User, signed_in: SignedIn) -> None:
    funded(ravi, 10_000_000)
    client = signed_in(ravi)
    first = post(client, "/api/v1/jobs", BODY, **{"Idempotency-Key": "k1"})
    again = post(client, "/api/v1/jobs", BODY, **{"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again["Idempotency-Replayed"] == "true"
    assert first.json()["id"] == again.json()["id"]
    other = post(client, "/api/v1/jobs", BODY | {"gpu_count": 2}, **{"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_mismatch")
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"image": "10.0.0.1/x"}, 400, "image"),
        ({"max_rate_micro": None}, 400, "max_rate_micro"),
        ({"gpu_count": 0}, 400, "gpu_count"),
        ({"gpu_model": "gtx-750"}, 400, "gpu_model"),
        ({"max_rate_micro": 900_000_000}, 402, "balance"),
        ({"command": "not a list"}, 400, "command"),
        ({"min_reliability": "NaN"}, 400, "min_reliability"),
    ],
)
def test_a_refusal_has_one_shape(
    ravi: User, signed_in: SignedIn, change: dict[str, Any], status: int, field: str
) -> None:
    funded(ravi, 10_000_000)
    response = post(signed_in(ravi), "/api/v1/jobs", BODY | change)
    assert response.status_code == status
    body = response.json()
    assert set(body) == {"code", "message", "fields", "request_id"}
    assert list(body["fields"]) == [field]
    assert Job.objects.count() == 0


def test_a_refused_key_may_be_used_again(ravi: User, signed_in: SignedIn) -> None:
    client = signed_in(ravi)
    assert post(client, "/api/v1/jobs", BODY, **{"Idempotency-Key": "k1"}).status_code == 402
    funded(ravi, 10_000_000)
    assert post(client, "/api/v1/jobs", BODY, **{"Idempotency-Key": "k1"}).status_code == 201


def test_other_peoples_jobs_do_not_exist(ravi: User, eve: User, signed_in: SignedIn) -> None:
    funded(ravi, 10_000_000)
    job, client = job_new(ravi), signed_in(eve)
    for path in (f"/api/v1/jobs/{job.pk}", f"/api/v1/jobs/{job.pk}/log"):
        assert client.get(path).status_code == 404
    assert post(client, f"/api/v1/jobs/{job.pk}/cancel", {}).status_code == 404
    assert client.get("/api/v1/jobs").json()["jobs"] == []
    job.refresh_from_db()
    assert job.status == "queued"


def test_nobody_submits_without_log_in(client: Client) -> None:
    assert post(client, "/api/v1/jobs", BODY).status_code in (401, 403)


def test_the_log_goes_on_from_an_offset(ravi: User, signed_in: SignedIn, at: At) -> None:

    told = story(ravi, now=at(0))
    append(told, at, 0, b"hello ")
    client, path = signed_in(ravi), f"/api/v1/jobs/{told.job.pk}/log"
    first = client.get(path).json()
    append(told, at, 6, b"world", final=True)
    second = client.get(f"{path}?offset={first['next_offset']}").json()
    assert (first["text"], second["text"], second["final"]) == ("hello ", "world", True)
    assert client.get(f"{path}?offset=-1").status_code == 400
    attempts = client.get(f"/api/v1/jobs/{told.job.pk}").json()["attempts"]
    assert attempts[0]["provider"] == told.listing.provider.party.handle
    assert "machine" not in attempts[0]
