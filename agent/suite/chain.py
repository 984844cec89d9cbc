"""Answering the challenge: the chain of products, its roots, and the openings (agent_protocol.challenge)."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from agent.suite.backends import Backend, SuiteFailed, matrices_of
from agent_protocol.challenge import exact, merkle_path, merkle_root, row_leaf, seed_first, seed_next

_ROWS_PER_TASK = 256


@dataclass(frozen=True)
class Chain:
    """leaves[round][row]. `product_s`: what the device spent multiplying, of all the time that passed."""

    roots: tuple[bytes, ...]
    leaves: tuple[tuple[bytes, ...], ...]
    product_s: float

    def opening(self, number: int, row: int) -> tuple[bytes, list[bytes]]:
        """Leaf and path of a row of a round."""
        leaves = self.leaves[number]
        return leaves[row], merkle_path(leaves, row)


def chain_compute(backend: Backend, *, nonce: str, seed: str, n: int, rounds: int) -> Chain:
    """All rounds. Raises SuiteFailed where the precision does not hold the sums."""
    precision = backend.precisions[0]
    if not exact(precision, n):
        raise SuiteFailed("unsupported_suite")
    current = seed_first(nonce, seed)
    roots: list[bytes] = []
    all_leaves: list[tuple[bytes, ...]] = []
    product_s = 0.0
    with ThreadPoolExecutor(max_workers=min(32, os.cpu_count() or 1)) as pool:
        for _ in range(rounds):
            leaves, took_s = _round(backend, current, n, precision, pool)
            product_s += took_s
            all_leaves.append(leaves)
            roots.append(merkle_root(leaves))
            current = seed_next(current, roots[-1])
    return Chain(tuple(roots), tuple(all_leaves), product_s)


def _round(
    backend: Backend, seed: bytes, n: int, precision: str, pool: ThreadPoolExecutor
) -> tuple[tuple[bytes, ...], float]:
    a, b = matrices_of(backend, seed, n, precision)
    product: list[Any] = []
    took_s = backend.seconds(lambda: product.append(backend.multiply(a, b, precision)))
    rows = backend.rows(product[0])
    # hashlib lets go of the interpreter for rows above 2 KiB, so threads share the work.
    parts = pool.map(lambda first: _leaves(rows[first : first + _ROWS_PER_TASK]), range(0, n, _ROWS_PER_TASK))
    return tuple(leaf for part in parts for leaf in part), took_s


def _leaves(rows: Sequence[Any]) -> list[bytes]:
    return [row_leaf(row.tobytes()) for row in rows]
