"""The benchmark's challenge: a chain of matrix products that has to be computed, and can be checked row by row.

Round r multiplies A by B, both n by n with entries in {-1, 0, 1} made from the round's seed. All sums are small integers,
so every precision that holds them exactly (`exact`) brings the same product, on every device. The prover commits to
the rows by a Merkle root, and the next round's seed is a hash of this round's seed and root: no round can be computed
before the one it follows, none can be left out. Afterwards the verifier names rows, recomputes them, and compares leaves.

The arithmetic of `mix`, `line` and `entry` uses operators only, and stays below 2^63: it means the same for a Python
integer, a NumPy int64 array and a torch int64 tensor. Standard library only: hosts, the benchmark image and the platform
share this file.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MASK = 0x7FFFFFFF
MAX_N = 16_384
"""Sums of n products stay within int16, and line numbers times LINE_STEP far below 2^63."""
LINE_STEP = 0x9E3779B1
HASH_BYTES = 32

_FIRST = b"gpunex challenge 1 first\x00"
_NEXT = b"gpunex challenge 1 next\x00"
_LEAF, _NODE = b"\x00", b"\x01"


def exact(precision: str, n: int) -> bool:
    """Whether a floating-point type holds every entry of a product of size n, partial sums included.

    FP32 and TF32 accumulate in 24 bits, FP16 holds integers up to 2048, BF16 up to 256. An entry is a sum of n terms of
    variance 4/9; at n = 8192 FP16's bound is 34 standard deviations away. BF16's at n = 4096 is 6, which 16 million entries
    can meet: a prover in BF16 has to look at its largest entry too.
    """
    limits = {"fp32": MAX_N, "tf32": MAX_N, "fp16": MAX_N, "bf16": 4096}
    return 1 <= n <= limits.get(precision, 0)


def mix(x: Any) -> Any:
    """A bijection of 31-bit integers (MurmurHash3's finaliser, cut to 31 bits so that no product leaves int64)."""
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & MASK
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & MASK
    return x ^ (x >> 16)


def line(key: int, index: Any) -> Any:
    """The odd 31-bit weight of row or column `index` (below MAX_N) under a 31-bit key."""
    return mix((index * LINE_STEP + key) & MASK) | 1


def entry(row: Any, column: Any) -> Any:
    """-1, 0 or 1 from the weights of a row and a column (arrays: broadcast against each other)."""
    wide = row * column
    # Three equal parts of the 31-bit range, by a multiplication: a remainder would cost processors and GPUs far more.
    return ((((wide ^ (wide >> 31)) & MASK) * 3) >> 31) - 1


@dataclass(frozen=True)
class Keys:
    """The four 31-bit keys of a round: rows and columns of A, rows and columns of B."""

    a_row: int
    a_column: int
    b_row: int
    b_column: int


def keys_of(seed: bytes) -> Keys:
    """The keys in a round's seed: its first four little-endian 32-bit words, each cut to 31 bits."""
    return Keys(*(word & MASK for word in struct.unpack_from("<4I", seed)))


def seed_first(nonce: str, seed: str) -> bytes:
    """Seed of the first round, from the plan's nonce and the hexadecimal seed that the platform gives at the start."""
    return hashlib.sha256(_FIRST + nonce.encode() + b"\x00" + bytes.fromhex(seed)).digest()


def seed_next(seed: bytes, root: bytes) -> bytes:
    """Seed of the round after the one that had `seed` and brought `root`."""
    return hashlib.sha256(_NEXT + seed + root).digest()


def seeds_of(nonce: str, seed: str, roots: Sequence[bytes]) -> list[bytes]:
    """The seed of each round that has a root, in order."""
    seeds = []
    current = seed_first(nonce, seed)
    for root in roots:
        seeds.append(current)
        current = seed_next(current, root)
    return seeds


def row_leaf(row: bytes) -> bytes:
    """The Merkle leaf of a product's row, given as n little-endian int16."""
    return hashlib.sha256(_LEAF + row).digest()


def row_pack(values: Sequence[int]) -> bytes:
    """A row of the product as `row_leaf` wants it."""
    return struct.pack(f"<{len(values)}h", *values)


def product_row(seed: bytes, n: int, index: int) -> list[int]:
    """One row of a round's product in plain Python: the definition, and fast enough for tiny n only (n² steps)."""
    keys = keys_of(seed)
    own = line(keys.a_row, index)
    a_row = [entry(own, line(keys.a_column, k)) for k in range(n)]
    columns = [line(keys.b_column, j) for j in range(n)]
    sums = [0] * n
    for k, factor in enumerate(a_row):
        if factor:
            weight = line(keys.b_row, k)
            sums = [total + factor * entry(weight, column) for total, column in zip(sums, columns, strict=True)]
    return sums


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()


def _above(level: Sequence[bytes]) -> list[bytes]:
    """The next level of the tree; a last node without a sibling moves up as it is."""
    pairs = [_node(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
    return pairs + list(level[len(level) - len(level) % 2 :])


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Root over at least one leaf. Leaves and nodes are hashed apart, so that neither can pass for the other."""
    level = list(leaves)
    while len(level) > 1:
        level = _above(level)
    return level[0]


def merkle_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The siblings from a leaf up to the root."""
    path = []
    level = list(leaves)
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        level, index = _above(level), index // 2
    return path


def merkle_root_from(leaf: bytes, index: int, count: int, path: Iterable[bytes]) -> bytes | None:
    """The root that a leaf at `index` of `count` leads to by its path; None when the path has another length."""
    found, siblings = leaf, iter(path)
    while count > 1:
        if index ^ 1 < count:
            sibling = next(siblings, None)
            if sibling is None:
                return None
            found = _node(sibling, found) if index % 2 else _node(found, sibling)
        index, count = index // 2, (count + 1) // 2
    return found if next(siblings, None) is None else None


def work_flops(n: int, rounds: int) -> int:
    """Floating-point operations of the whole chain: a multiplication and an addition per term."""
    return 2 * n * n * n * rounds
