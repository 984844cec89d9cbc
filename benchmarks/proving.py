"""Checking an answered challenge (agent_protocol.challenge). Pure: opened rows are recomputed with NumPy, time is judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from secrets import SystemRandom

import numpy as np

from agent_protocol.challenge import entry, keys_of, line, row_leaf, work_flops

OPENED_ROUNDS = 8
OPENED_ROWS = 4
"""32 rows of a run are recomputed. Whoever leaves out half of the rounds is met with 255 of 256 chances, a quarter with nine
of ten. Few rounds with several rows each cost less than many with one: most of the work is making B again."""
TIMED_SHARE = Decimal(40)
"""A claim may be so many times what the platform has timed. Of the timed seconds a fast card multiplies for a small part (an
estimated tenth): the rest starts a container and torch, makes the matrices, copies and hashes the products, and crosses the
network. That separates a processor or an old card from a data-centre card, and not two data-centre cards from each other."""
BLOCK = 256
"""Lines of B made at a time: their 64-bit numbers stay in the processor's cache."""
TERA = Decimal(10) ** 12

Opening = tuple[int, int]
"""(round, row), both counted from 0."""


def openings_choose(n: int, rounds: int, random: SystemRandom) -> list[Opening]:
    """The rows to open, in order; every round and row where there are too few to choose from."""
    chosen = random.sample(range(rounds), min(rounds, OPENED_ROUNDS))
    return sorted((each, row) for each in chosen for row in random.sample(range(n), min(n, OPENED_ROWS)))


def product_rows(seed: bytes, n: int, rows: Sequence[int]) -> list[bytes]:
    """Rows of a round's product as little-endian int16. Memory: about BLOCK by n numbers; time: n² per round, once.

    FP32 sums of integers below 2^24 are exact in any order, so BLAS may add as it likes.
    """
    keys = keys_of(seed)
    lines = np.arange(n, dtype=np.int64)
    a_columns, b_columns = line(keys.a_column, lines)[None, :], line(keys.b_column, lines)[None, :]
    wanted = line(keys.a_row, np.asarray(rows, dtype=np.int64))[:, None]
    a_rows = entry(wanted, a_columns).astype(np.float32)
    sums = np.zeros((len(rows), n), dtype=np.float32)
    for first in range(0, n, BLOCK):
        block = line(keys.b_row, lines[first : first + BLOCK])[:, None]
        sums += a_rows[:, first : first + BLOCK] @ entry(block, b_columns).astype(np.float32)
    return [row.tobytes() for row in sums.astype("<i2")]


def first_wrong(seeds: Sequence[bytes], n: int, leaves: dict[Opening, bytes]) -> Opening | None:
    """The first opened leaf that is not its row's; None when all are right."""
    by_round: dict[int, list[int]] = defaultdict(list)
    for each, row in sorted(leaves):
        by_round[each].append(row)
    for each, rows in by_round.items():
        for row, packed in zip(rows, product_rows(seeds[each], n, rows), strict=True):
            if row_leaf(packed) != leaves[each, row]:
                return each, row
    return None


@dataclass(frozen=True)
class Timing:
    """What the platform's own clock says about a chain of products.

    proven_tflops: the whole work by the whole time, waiting included; what was at least done.
    claim_limit_tflops: the most that a reported figure may be to be believed (TIMED_SHARE).
    """

    proven_tflops: Decimal
    claim_limit_tflops: Decimal


def timing_of(n: int, rounds: int, elapsed_s: float) -> Timing:
    """Raises nothing: an answer within the same microsecond counts as one microsecond."""
    proven = Decimal(work_flops(n, rounds)) / TERA / max(Decimal(str(elapsed_s)), Decimal("0.000001"))
    return Timing(proven_tflops=proven, claim_limit_tflops=proven * TIMED_SHARE)
