"""Answering the challenge: the chain of products and its roots (agent_protocol.challenge)."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agent.suite.backends import Backend, SuiteFailed, matrices_of
from agent_protocol.challenge import exact, merkle_root, row_leaf, seed_first, seed_next

_ROWS_PER_TASK = 256


def chain_compute(backend: Backend, *, nonce: str, seed: str, n: int, rounds: int) -> tuple[list[bytes], float]:
    """The root of every round, and the seconds that the device multiplied. Raises SuiteFailed."""
    _precision_check(backend, n)
    current = seed_first(nonce, seed)
    roots: list[bytes] = []
    product_s = 0.0
    with _hashers() as pool:
        for _ in range(rounds):
            leaves, took_s = _round(backend, current, n, pool)
            product_s += took_s
            roots.append(merkle_root(leaves))
            current = seed_next(current, roots[-1])
    return roots, product_s


def leaves_compute(backend: Backend, seed: bytes, n: int) -> list[bytes]:
    """The leaves of one round by its own seed. Raises SuiteFailed."""
    _precision_check(backend, n)
    with _hashers() as pool:
        return _round(backend, seed, n, pool)[0]


def _precision_check(backend: Backend, n: int) -> None:
    """The chain's precision must hold every sum."""
    if not exact(backend.precisions[0], n):
        raise SuiteFailed("unsupported_suite")


def _hashers() -> ThreadPoolExecutor:
    """hashlib lets go of the interpreter for rows above 2 KiB, so threads share the work."""
    return ThreadPoolExecutor(max_workers=min(32, os.cpu_count() or 1))


def _round(backend: Backend, seed: bytes, n: int, pool: ThreadPoolExecutor) -> tuple[list[bytes], float]:
    precision = backend.precisions[0]
    a, b = matrices_of(backend, seed, n, precision)
    product: list[Any] = []
    took_s = backend.seconds(lambda: product.append(backend.multiply(a, b, precision)))
    rows = backend.rows(product[0])
    parts = pool.map(lambda first: _leaves(rows[first : first + _ROWS_PER_TASK]), range(0, n, _ROWS_PER_TASK))
    return [leaf for part in parts for leaf in part], took_s


def _leaves(rows: Sequence[Any]) -> list[bytes]:
    return [row_leaf(row.tobytes()) for row in rows]
