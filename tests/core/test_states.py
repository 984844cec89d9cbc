"""A status moves in one place: the table, one conditional UPDATE, one event row that nobody can rewrite."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.models import Party
from accounts.states import PARTY
from core import clock
from core.errors import MoveNotAllowed, StaleState
from core.models import StatusEvent

pytestmark = pytest.mark.django_db


@pytest.fixture
def party() -> Party:
    return Party.objects.create(handle="ada")


def test_a_move_changes_the_row_and_writes_one_event(party: Party) -> None:
    now = clock.now()
    PARTY.move(party, to="suspended", actor="user:olga", reason="chargeback", at=now)
    party.refresh_from_db()
    event = StatusEvent.objects.get(subject_id=party.pk)
    assert party.status == "suspended"
    assert (event.old, event.new, event.actor, event.reason, event.at) == (
        "active",
        "suspended",
        "user:olga",
        "chargeback",
        now,
    )


def test_a_move_outside_the_table_is_refused_and_nothing_is_written(party: Party) -> None:
    PARTY.move(party, to="closed", at=clock.now())
    with pytest.raises(MoveNotAllowed, match="cannot become") as refusal:
        PARTY.check(old="closed", new="active")
    assert refusal.value.fields == {"status": ["Found closed; allowed from there: nothing: it is final."]}
    assert StatusEvent.objects.count() == 1


def test_a_stale_row_moves_nothing(party: Party) -> None:
    twin = Party.objects.get(pk=party.pk)
    PARTY.move(party, to="suspended", at=clock.now())
    with pytest.raises(StaleState):
        PARTY.move(twin, to="closed", at=clock.now())
    party.refresh_from_db()
    assert party.status == "suspended"
    assert StatusEvent.objects.count() == 1


@pytest.mark.parametrize("statement", ["UPDATE core_statusevent SET reason = 'x'", "DELETE FROM core_statusevent"])
def test_the_database_refuses_to_rewrite_history(party: Party, statement: str) -> None:
    PARTY.move(party, to="suspended", at=clock.now())
    with pytest.raises(IntegrityError, match="written once"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert StatusEvent.objects.count() == 1
