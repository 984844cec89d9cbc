"""Two hosts with one identity are noticed; a late or repeated request accuses nobody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from gpunex.agent_guard import MARGIN_SECONDS, STRIKE_SECONDS, STRIKES, Seen, Track, judge

MACHINE = UUID(int=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


def told(*reports: tuple[float, str, int]) -> Track:
    """The track after reports of (seconds since the start, boot, sequence)."""
    track = None
    for seconds, boot, sequence in reports:
        track = judge(track, Seen(MACHINE, boot, sequence, START + timedelta(seconds=seconds)))
    assert track is not None
    return track


def test_rising_sequences_and_a_reboot_are_normal() -> None:
    track = told((0, "a", 1), (15, "a", 2), (30, "a", 7), (60, "b", 1), (75, "b", 2))
    assert track.strikes == []
    assert (track.boot_id, track.sequence, track.earlier_boots) == ("b", 2, ["a"])


def test_a_sequence_that_repeats_or_goes_back_is_a_strike() -> None:
    assert len(told((0, "a", 5), (10, "a", 5)).strikes) == 1
    assert len(told((0, "a", 5), (10, "a", 4)).strikes) == 1


def test_observations_of_two_processes_out_of_order_accuse_nobody() -> None:
    assert told((0, "a", 6), (MARGIN_SECONDS / 2, "a", 5)).strikes == []


def test_an_earlier_boot_that_speaks_again_is_a_strike() -> None:
    track = told((0, "a", 1), (15, "b", 1), (30, "a", 2), (45, "b", 2), (60, "a", 3))
    assert len(track.strikes) == STRIKES


def test_a_new_credential_begins_anew() -> None:
    track = judge(None, Seen(MACHINE, "a", 900, START, "old"))
    for number in range(1, 5):
        track = judge(track, Seen(MACHINE, "a", number, START + timedelta(seconds=15 * number), "new"))
    assert (track.sequence, track.strikes) == (4, [])


def test_old_strikes_fade() -> None:
    track = told((0, "a", 5), (10, "a", 5), (STRIKE_SECONDS + 20, "a", 5))
    assert len(track.strikes) == 1
