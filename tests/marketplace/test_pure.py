"""Prices, ranks, visibility and outcomes: pure rules, worked by hand."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_protocol.reasons import REASONS
from core.errors import Invalid
from core.money import charge_micro
from marketplace import logtext, outcomes, pricing, ranking, visibility
from marketplace.states import ATTEMPT, ATTEMPT_ORDER

USDC = 1_000_000


class TestRates:
    @pytest.mark.parametrize("rate", [100, 1_000 * USDC])
    def test_the_bounds_themselves_are_allowed(self, rate: int) -> None:
        assert pricing.rate_check(rate) == rate

    @pytest.mark.parametrize("rate", [-1, 0, 99, 1_000 * USDC + 1])
    def test_a_rate_outside_names_field_found_and_allowed(self, rate: int) -> None:
        with pytest.raises(Invalid) as refusal:
            pricing.rate_check(rate)
        (sentence,) = refusal.value.fields["rate"]
        assert "0.0001 to 1,000 USDC" in sentence

    def test_a_hold_is_rounded_up(self) -> None:
        assert pricing.hold_micro(rate_micro=1, gpus=1, seconds=1) == 1
        assert pricing.hold_micro(rate_micro=380_000, gpus=2) == 760_000

    def test_a_credit_is_the_last_four_hours_and_never_more_than_the_charge(self) -> None:
        assert pricing.credit_micro(rate_micro=USDC, gpus=1, billed_seconds=90) == 25_000
        assert pricing.credit_micro(rate_micro=USDC, gpus=1, billed_seconds=10 * 3600) == 4 * USDC

    @given(st.integers(100, 10**9), st.integers(1, 16), st.integers(0, 30 * 86_400))
    def test_credit_and_what_is_kept_add_up(self, rate: int, gpus: int, seconds: int) -> None:
        credit = pricing.credit_micro(rate_micro=rate, gpus=gpus, billed_seconds=seconds)
        assert 0 <= credit <= charge_micro(rate_micro=rate, gpus=gpus, seconds=seconds)


class TestQuartiles:
    def test_under_five_providers_there_is_silence(self) -> None:
        assert pricing.quartiles([(uuid4(), 1_000) for _ in range(4)]) is None

    def test_a_provider_with_many_machines_votes_once(self) -> None:
        flood = uuid4()
        asks = [(uuid4(), rate) for rate in (100, 200, 300, 400)] + [(flood, 10_000)] * 50
        found = pricing.quartiles(asks)
        assert found is not None
        assert (found.providers, found.p25_micro, found.median_micro, found.p75_micro) == (5, 200, 300, 400)

    def test_the_region_is_preferred_then_the_world(self) -> None:
        here, world = pricing.Quartiles(1, 2, 3, 5), pricing.Quartiles(4, 5, 6, 9)
        assert pricing.nearest({"oceania": here, "": world}, "oceania") == ("oceania", here)
        assert pricing.nearest({"": world}, "oceania") == ("", world)
        assert pricing.nearest({}, "oceania") is None


class TestRank:
    def test_the_formula_by_hand(self) -> None:
        found = ranking.factors(
            score=Decimal(90), rate_micro=500_000, median_micro=400_000, commitment_months=6, evidence_hours=84
        )
        assert (found.reliability, found.price) == (Decimal("0.81"), Decimal("0.8"))
        assert (found.commitment, found.confidence) == (Decimal("1.04"), Decimal("0.85"))
        assert found.value == Decimal("0.81") * Decimal("0.8") * Decimal("1.04") * Decimal("0.85")

    def test_price_is_clamped_and_neutral_without_a_median(self) -> None:
        def price(rate: int, median: int | None) -> Decimal:
            return ranking.factors(
                score=None, rate_micro=rate, median_micro=median, commitment_months=0, evidence_hours=None
            ).price

        assert [price(100, 1_000_000), price(1_000_000, 100), price(5, None)] == [Decimal("1.5"), Decimal("0.5"), 1]

    def test_a_new_provider_is_held_back_by_confidence_alone(self) -> None:
        found = ranking.factors(score=None, rate_micro=1, median_micro=None, commitment_months=0, evidence_hours=None)
        assert found.value == Decimal("0.7")

    def test_ties_take_turns_by_day_and_never_outweigh_a_step(self) -> None:
        one, other = UUID(int=1), UUID(int=2)
        days = [date(2026, 1, day) for day in range(1, 29)]
        ahead = [ranking.stored(7_000, one, day) > ranking.stored(7_000, other, day) for day in days]
        assert 0 < sum(ahead) < len(days)
        assert all(ranking.stored(7_001, one, day) > ranking.stored(7_000, other, day) for day in days)
        assert ranking.steps_of(ranking.stored(7_001, one, days[0])) == 7_001

    def test_only_moves_of_a_percent_are_written(self) -> None:
        rank = ranking.stored(10_000, UUID(int=1), date(2026, 1, 1))
        assert not ranking.moved(rank, 10_099)
        assert ranking.moved(rank, 10_100)
        assert ranking.moved(rank, 9_900)


def facts(**changes: object) -> visibility.Facts:
    values: dict[str, object] = {
        "provider_status": "active",
        "machine_status": "active",
        "health": "online",
        "degraded": [],
        "gpus": [visibility.GpuFacts("active", True)],
        "rate_micro": 400_000,
        "open_now": True,
    }
    return visibility.Facts(**(values | changes))  # type: ignore[arg-type]


class TestVisibility:
    def test_with_everything_in_order_it_is_shown(self) -> None:
        assert visibility.decide(facts()) == visibility.Shown(True)

    @pytest.mark.parametrize(
        ("changes", "reason", "detail"),
        [
            ({"provider_status": "suspended"}, "provider_suspended", ()),
            ({"machine_status": "pending_confirmation"}, "not_confirmed", ()),
            ({"machine_status": "draining"}, "draining", ()),
            ({"machine_status": "quarantined"}, "machine_quarantined", ()),
            ({"gpus": []}, "gpu_unavailable", ()),
            ({"gpus": [visibility.GpuFacts("needs_review", None)]}, "gpu_needs_review", ()),
            ({"health": "suspect"}, "machine_silent", ()),
            ({"health": "offline"}, "machine_offline", ()),
            ({"health": "never"}, "machine_offline", ()),
            ({"degraded": ["disk_low"]}, "host_degraded", ("disk_low",)),
            ({"gpus": [visibility.GpuFacts("active", None)]}, "benchmark_missing", ()),
            (
                {"gpus": [visibility.GpuFacts("active", False, ["below_fp16_tflops"])]},
                "benchmark_below_minimum",
                ("below_fp16_tflops",),
            ),
            ({"gpus": [visibility.GpuFacts("active", False, [], True)]}, "benchmark_in_review", ()),
            ({"rate_micro": None}, "no_rate", ()),
            ({"open_now": False}, "outside_schedule", ()),
        ],
    )
    def test_it_names_the_one_thing_in_the_way(
        self, changes: dict[str, object], reason: str, detail: tuple[str, ...]
    ) -> None:
        shown = visibility.decide(facts(**changes))
        assert (shown.visible, shown.reason, shown.detail) == (False, reason, detail)
        assert reason in visibility.SENTENCES

    def test_one_good_card_is_enough(self) -> None:
        cards = [visibility.GpuFacts("active", False, ["x"]), visibility.GpuFacts("active", True)]
        assert visibility.decide(facts(gpus=cards)).visible


class TestOutcomes:
    @pytest.mark.parametrize(
        ("reported", "exit_code", "ordered", "elapsed", "believed"),
        [
            ("completed", 0, None, 5, "completed"),
            ("completed", 0, "cancelled", 5, "completed"),
            ("completed", 137, None, 5, "unknown"),
            ("nonzero_exit", 143, "cancelled", 5, "cancelled"),
            ("gpu_lost", None, None, 5, "gpu_lost"),
            ("cancelled", None, None, 5, "unknown"),
            ("balance_exhausted", None, None, 5, "unknown"),
            ("platform_stop", None, None, 5, "unknown"),
            ("platform_outage", None, None, 5, "unknown"),
            ("time_limit", None, None, 54, "unknown"),
            ("time_limit", None, None, 59, "time_limit"),
            ("lease_expired", None, None, None, "lease_expired"),
        ],
    )
    def test_the_agents_word_is_checked_against_our_orders(
        self, reported: str, exit_code: int | None, ordered: str | None, elapsed: int | None, believed: str
    ) -> None:
        found = outcomes.reason_judge(
            reported=reported, exit_code=exit_code, ordered=ordered, elapsed_s=elapsed, limit_s=60
        )
        assert found == believed

    @pytest.mark.parametrize("reason", sorted(REASONS))
    def test_every_reason_leads_somewhere(self, reason: str) -> None:
        found = outcomes.decide(reason=reason, cancel_requested=False, tries=3, max_attempts=3, never_accepted=False)
        assert found.job in {"succeeded", "failed", "lost", "cancelled"}
        assert found.credited == (REASONS[reason].owner == "provider")

    def test_a_providers_fault_is_tried_again_while_attempts_are_left(self) -> None:
        def job(tries: int, most: int) -> str:
            return outcomes.decide(
                reason="gpu_lost", cancel_requested=False, tries=tries, max_attempts=most, never_accepted=False
            ).job

        assert [job(1, 1), job(1, 2), job(2, 2), job(2, 3)] == ["failed", "queued", "failed", "queued"]

    def test_a_customers_fault_is_never_tried_again(self) -> None:
        found = outcomes.decide(
            reason="nonzero_exit", cancel_requested=False, tries=1, max_attempts=3, never_accepted=False
        )
        assert found.job == "failed"

    def test_an_offer_that_nobody_took_costs_no_attempt(self) -> None:
        found = outcomes.decide(
            reason="lease_expired", cancel_requested=False, tries=0, max_attempts=1, never_accepted=True
        )
        assert (found.job, found.credited) == ("queued", False)

    def test_a_cancelled_job_is_not_tried_again(self) -> None:
        found = outcomes.decide(reason="gpu_lost", cancel_requested=True, tries=1, max_attempts=3, never_accepted=False)
        assert found.job == "cancelled"

    def test_moves_only_go_forward(self) -> None:
        for old, allowed in ATTEMPT.allowed.items():
            assert all(ATTEMPT_ORDER[new] > ATTEMPT_ORDER[old] for new in allowed)


class TestLogText:
    @pytest.mark.parametrize(
        ("raw", "shown"),
        [
            (b"plain\n\ttabbed\r\n", "plain\n\ttabbed\n"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07after", "after"),
            (b"\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b" 10%\r 50%\r100%\n", "100%\n"),
            (b"caf\xc3\xa9 \xff\xfe", "café \ufffd\ufffd"),
            ("left\u202eright".encode(), "leftright"),
            (b"null\x00byte\x9b31m", "nullbyte\ufffd31m"),
        ],
    )
    def test_terminal_tricks_do_not_travel(self, raw: bytes, shown: str) -> None:
        assert logtext.clean(raw) == shown

    @given(st.binary(max_size=400))
    def test_any_bytes_become_printable_text(self, raw: bytes) -> None:
        assert all(character in "\n\t" or ord(character) >= 0x20 for character in logtext.clean(raw))
