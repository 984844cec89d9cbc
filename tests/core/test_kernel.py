"""The small parts of the kernel: ids, clock, locks, invariants, request ids, the one error shape."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from core import clock, invariants
from core.errors import Invalid
from core.ids import secret_hash, secret_new, uuid7
from core.invariants import Invariant, Violation
from core.locks import lock_name, lock_rows
from core.models import Slot


def test_ids_are_version_7_and_sort_by_the_time_they_were_made() -> None:
    before = time.time_ns() // 1_000_000
    made = [uuid7() for _ in range(1000)]
    assert {value.version for value in made} == {7}
    assert {value.variant for value in made} == {"specified in RFC 4122"}
    assert len(set(made)) == 1000
    assert all(before <= value.int >> 80 <= time.time_ns() // 1_000_000 for value in made)


def test_a_secret_says_what_it_opens_and_is_stored_as_a_hash() -> None:
    secret = secret_new("gpxe")
    assert secret.startswith("gpxe_")
    assert len(secret) >= 5 + 43
    assert len(secret_hash(secret)) == 32
    assert secret_hash(secret) == secret_hash(secret) != secret_hash(secret + "x")


def test_the_file_clock_moves_time_for_everybody_who_reads_the_file(settings: Any, tmp_path: Path) -> None:
    settings.CLOCK, settings.CLOCK_FILE = "core.clock.FileClock", str(tmp_path / "clock")
    clock._clocks.clear()
    try:
        assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
        (tmp_path / "clock").write_text("86400")
        assert clock.now() - datetime.now(UTC) > timedelta(hours=23)
    finally:
        clock._clocks.clear()


@pytest.mark.django_db(transaction=False)
def test_rows_are_locked_in_key_order() -> None:
    rows = [Slot.objects.create(name="lock", slot=str(n), claimed_at=clock.now()) for n in range(5)]
    locked = lock_rows(Slot.objects.all(), [row.pk for row in reversed(rows)])
    assert [row.pk for row in locked] == sorted(row.pk for row in rows)


def test_a_lock_without_a_transaction_is_a_programming_error(committed_db: str) -> None:
    with pytest.raises(RuntimeError, match="transaction"):
        lock_name("payouts:run")
    with transaction.atomic():
        lock_name("payouts:run")


class Broken(Invariant):
    name = "broken"

    def check(self) -> list[Violation]:
        raise RuntimeError("no database")


class Violated(Invariant):
    name = "violated"

    def check(self) -> list[Violation]:
        return [self.violation("account 7", "It does not add up.")]


PATHS = [f"{__name__}.Broken", f"{__name__}.Violated"]


def test_a_check_that_fails_is_a_violation_and_stops_no_other(settings: Any) -> None:
    settings.INVARIANTS = f"{__name__}.PATHS"
    found = invariants.check_all()
    assert [violation.invariant for violation in found] == ["broken", "violated"]
    assert found[1] == Violation("violated", "account 7", "It does not add up.")


def test_an_invalid_field_says_what_was_found_and_what_is_allowed() -> None:
    error = Invalid.field("quantity", found=0, allowed="1 to 1024")
    assert error.fields == {"quantity": ["Found 0; allowed: 1 to 1024."]}


def test_every_answer_carries_a_request_id(client: Client) -> None:
    made = client.get("/healthz")["X-Request-ID"]
    assert len(made) == 36
    assert client.get("/healthz", headers={"X-Request-ID": "abcdef-12345678"})["X-Request-ID"] == "abcdef-12345678"
    forged = client.get("/healthz", headers={"X-Request-ID": 'x" level="error'})["X-Request-ID"]
    assert len(forged) == 36


@pytest.mark.django_db
def test_ready_says_what_is_not(client: Client, settings: Any) -> None:
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (200, True)
