"""What the demo's customers order next: enough to look alive, never so much that money or machine end."""

from __future__ import annotations

from typing import Any

from tour.customers import AT_ONCE, PAGE, RESERVE_MICRO, first_work_left, next_work
from tour.work import ADA, FIRST_WORK, ROTA

ROUND = ROTA["zoe"]
RICH = 100 * RESERVE_MICRO


def job(name: str, status: str = "succeeded") -> dict[str, Any]:
    return {"name": name, "status": status}


def test_ravi_orders_his_first_jobs_once() -> None:
    assert first_work_left([]) == list(FIRST_WORK)
    assert first_work_left([job(FIRST_WORK[0].name)]) == list(FIRST_WORK[1:])
    assert first_work_left([job(work.name, "failed") for work in FIRST_WORK]) == []
    assert first_work_left([job("mine")] * PAGE) == []


def test_the_rota_goes_round() -> None:
    assert next_work([], ROUND, RICH) == ROUND[0]
    assert next_work([job(ROUND[0].name)], ROUND, RICH) == ROUND[1]
    assert next_work([job("by hand"), job(ROUND[-1].name), job(ROUND[0].name)], ROUND, RICH) == ROUND[0]


def test_nothing_is_ordered_twice_at_once_nor_too_much() -> None:
    one_runs = [job(ROUND[0].name, "active")]
    assert next_work(one_runs, ROUND, RICH) == ROUND[1]
    assert next_work([job(ROUND[2].name), *one_runs], ROUND, RICH) == ROUND[1]
    assert next_work([job("a", "queued")] * AT_ONCE, ROUND, RICH) is None


def test_a_customer_stops_before_the_money_ends() -> None:
    assert next_work([], ROUND, RESERVE_MICRO - 1) is None
    assert next_work([], ROUND, RESERVE_MICRO) is not None


def test_nobody_rents_where_the_tour_does() -> None:
    every = [*FIRST_WORK, *(work for rota in ROTA.values() for work in rota)]
    assert [work for work in every if (work.provider, work.model) == (ADA, "l4-24gb")] == []
    assert ADA not in {work.provider for work in FIRST_WORK}
