"""The challenge's definition: the numbers are pinned, the tree proves what it should and nothing else."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_protocol import challenge
from benchmarks.proving import product_rows

SEED = hashlib.sha256(b"a seed").digest()
FIRST = "25c97dee99b9c6bbd6d212931218a7995491a668d402df710b377ad718cd84c8"
LINES = [1011272157, 563384891, 1968611073, 883080329]
ROW = [2, 3, -1, 0, 2, 2]
LEAF = "622942b63176fe9f511e2fe4110c44e28e230f71011dbecdbe58e67aa74bd1d7"
LEAVES = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=40)


def test_the_generator_never_changes() -> None:
    """Hosts and platforms of different ages must agree on these for ever; a change is a new suite."""
    assert challenge.seed_first("n1", "00ff").hex() == FIRST
    assert [challenge.line(12345, index) for index in range(4)] == LINES
    assert challenge.product_row(SEED, 6, 2) == ROW
    assert challenge.row_leaf(challenge.row_pack(ROW)).hex() == LEAF


@settings(deadline=None, max_examples=25)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 33), st.data())
def test_numpy_brings_the_rows_of_the_definition(seed: bytes, n: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3, unique=True))
    expected = [challenge.row_pack(challenge.product_row(seed, n, row)) for row in rows]
    assert product_rows(seed, n, rows) == expected


@given(st.integers(0, challenge.MASK), st.integers(0, challenge.MAX_N - 1), st.integers(0, challenge.MAX_N - 1))
def test_the_arithmetic_stays_within_64_bits(key: int, row: int, column: int) -> None:
    """What Python computes without bounds, an int64 array computes too."""
    u, v = challenge.line(key, row), challenge.line(challenge.MASK, column)
    arrays = challenge.line(key, np.array([row])), challenge.line(challenge.MASK, np.array([column]))
    assert 0 < u <= challenge.MASK
    assert (u, v) == (int(arrays[0][0]), int(arrays[1][0]))
    assert challenge.entry(u, v) == int(challenge.entry(*arrays)[0]) in (-1, 0, 1)
    assert challenge.MASK * 0xC2B2AE35 < 2**63


def test_the_matrices_have_no_short_cut() -> None:
    """Entries are spread evenly, and the matrix has full rank: a factorisation would make the product cheap."""
    keys = challenge.keys_of(SEED)
    lines = np.arange(256)
    matrix = challenge.entry(challenge.line(keys.a_row, lines)[:, None], challenge.line(keys.a_column, lines)[None, :])
    shares = [(matrix == value).mean() for value in (-1, 0, 1)]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.01)
    assert np.linalg.matrix_rank(matrix) >= 254
    singular = np.linalg.svd(matrix.astype(float), compute_uv=False)
    # The largest singular value of random ±1/0 entries is about 2·sqrt(n·2/3); structure would stand out.
    assert singular[0] < 1.3 * 2 * np.sqrt(256 * 2 / 3)


def test_every_precision_is_exact_within_its_bound() -> None:
    assert challenge.exact("fp16", 16_384)
    assert challenge.exact("bf16", 4096)
    assert not challenge.exact("bf16", 8192)
    assert not challenge.exact("fp8", 1)
    packed = product_rows(SEED, 4096, [0, 1])
    largest = max(int(np.abs(np.frombuffer(row, "<i2")).max()) for row in packed)
    assert 150 < largest < 400


@given(LEAVES, st.data())
def test_a_leaf_leads_to_the_root_by_its_own_path_only(leaves: list[bytes], data: st.DataObject) -> None:
    root = challenge.merkle_root(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = challenge.merkle_path(leaves, index)

    def leads(leaf: bytes, at: int, count: int, way: list[bytes]) -> bool:
        return challenge.merkle_root_from(leaf, at, count, way) == root

    assert leads(leaves[index], index, len(leaves), path)
    assert not leads(hashlib.sha256(leaves[index]).digest(), index, len(leaves), path)
    assert not leads(leaves[index], index, len(leaves), [*path, b"\0" * 32])
    if path:
        assert not leads(leaves[index], index, len(leaves), path[:-1])
        assert not leads(leaves[index], index, len(leaves), [bytes(32), *path[1:]])
    # A node of the tree is no leaf: another tree over the nodes must not have this root.
    if len(leaves) > 2:
        assert challenge.merkle_root(challenge._above(leaves)) == root
        assert challenge.row_leaf(leaves[0] + leaves[1]) != challenge._above(leaves)[0]


def test_each_round_depends_on_all_before() -> None:
    roots = [hashlib.sha256(bytes([number])).digest() for number in range(4)]
    seeds = challenge.seeds_of("n1", "00ff", roots)
    assert seeds[0] == challenge.seed_first("n1", "00ff")
    changed = challenge.seeds_of("n1", "00ff", [bytes(32), *roots[1:]])
    assert [a == b for a, b in zip(seeds, changed, strict=True)] == [True, False, False, False]
    assert challenge.seeds_of("n2", "00ff", roots)[0] != seeds[0]
    assert challenge.seeds_of("n1", "01ff", roots)[0] != seeds[0]
