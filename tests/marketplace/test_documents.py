"""Receipts and statements as files and in lists: what a download says it is, who gets it, how many a page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import time_machine
from django.test import Client

from accounts.models import User
from billing.models import Document
from billing.services import receipts_issue
from tests.factories.billing import USDC
from tests.factories.documents import deposited, receipt_of

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]
NOW = datetime(2026, 12, 2, 9, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _at_nine() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


def test_a_download_says_what_it_is_and_stays_private(signed_in: SignedIn, ravi: User) -> None:
    ravi.name = '../../evil"\r\nSet-Cookie: x=1\r\n.exe'
    ravi.save(update_fields=["name"])
    document = receipt_of(ravi, NOW)
    for path in (f"/billing/documents/{document.pk}/pdf/", f"/api/v1/billing/documents/{document.pk}/pdf"):
        answer = signed_in(ravi).get(path)
        assert (answer.status_code, answer["Content-Type"]) == (200, "application/pdf")
        assert answer["Content-Disposition"] == 'attachment; filename="gpunex-receipt-R-2026-000001.pdf"'
        assert (answer["X-Content-Type-Options"], answer["Cache-Control"]) == ("nosniff", "private, no-store")
        assert answer.content.startswith(b"%PDF-") and "Set-Cookie" not in answer.headers
    for path in (f"/billing/documents/{document.pk}/csv/", f"/billing/documents/{document.pk}/exe/"):
        assert signed_in(ravi).get(path).status_code == 404
    assert signed_in(ravi).get(f"/api/v1/billing/documents/{document.pk}/csv").status_code == 404


def test_what_is_not_yours_is_not_there(signed_in: SignedIn, ravi: User, eve: User) -> None:
    document = receipt_of(ravi, NOW)
    before = Document.objects.count()
    for key in (document.pk, uuid4()):
        for path in (f"/billing/documents/{key}/", f"/billing/documents/{key}/pdf/"):
            assert signed_in(eve).get(path).status_code == 404
        for path in (f"/api/v1/billing/documents/{key}", f"/api/v1/billing/documents/{key}/pdf"):
            assert signed_in(eve).get(path).status_code == 404
    assert signed_in(eve).get("/api/v1/billing/receipts").json()["documents"] == []
    for path in ("/api/v1/provider/earnings", "/api/v1/provider/payouts", "/api/v1/provider/statements"):
        assert signed_in(eve).get(path).status_code == 404
    assert Document.objects.count() == before


def test_the_api_shows_a_document_with_its_lines(signed_in: SignedIn, ravi: User) -> None:
    document = receipt_of(ravi, NOW)
    client = signed_in(ravi)
    (row,) = client.get("/api/v1/billing/receipts").json()["documents"]
    assert (row["number"], row["total_micro"]) == ("R-2026-000001", 5 * USDC)
    assert client.get(row["files"]["pdf"]).status_code == 200
    body = client.get(f"/api/v1/billing/documents/{document.pk}").json()
    assert sum(line["amount_micro"] for line in body["lines"]) == body["total_micro"]
    assert body["sha256"] == bytes(document.sha256).hex()
    assert client.get("/api/v1/billing/statements?cursor=x").json()["fields"].keys() == {"cursor"}


def test_documents_are_paged(signed_in: SignedIn, ravi: User) -> None:
    for minute in range(27):
        deposited(ravi, USDC, at=NOW + timedelta(minutes=minute))
    receipts_issue(now=NOW)
    client = signed_in(ravi)
    first = client.get("/billing/documents/")
    second = client.get("/billing/documents/" + first.context["next_url"])
    numbers = [document.number for document in (*first.context["documents"], *second.context["documents"])]
    assert numbers == list(range(27, 0, -1)) and second.context["next_url"] == ""
    assert "All receipts and statements" in client.get("/billing/").content.decode()
    assert client.get("/billing/documents/?cursor=x").status_code == 404
