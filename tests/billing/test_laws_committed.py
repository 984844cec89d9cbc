"""Laws that only show across two committed transactions."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import IntegrityError, connection

from accounts.models import Party
from billing.models import Account, Posting
from billing.services import account_open
from core import clock
from tests.factories.billing import earned


def test_a_closed_transfer_takes_no_more_postings(committed_db: str, provider: Party, customer: Party) -> None:
    transfer = earned(provider, customer, 100)
    extra: list[Account] = [account_open(kind="suspense"), account_open(kind="rent")]
    statement = "INSERT INTO billing_posting (transfer_id, account_id, amount) VALUES (%s, %s, 5), (%s, %s, -5)"
    with pytest.raises(IntegrityError, match="is closed"), connection.cursor() as cursor:
        cursor.execute(statement, [transfer.pk, extra[0].pk, transfer.pk, extra[1].pk])
    assert Posting.objects.count() == 3


def test_a_header_cannot_name_another_transaction(committed_db: str) -> None:
    statement = (
        "INSERT INTO billing_transfer (id, created_at, source, kind, request_hash, effective_at, written_in)"
        " VALUES (%s, %s, 'later', 'usage', %s, %s, 1)"
    )
    with pytest.raises(IntegrityError, match="names another transaction"), connection.cursor() as cursor:
        cursor.execute(statement, [uuid4(), clock.now(), b"\0" * 32, clock.now()])
