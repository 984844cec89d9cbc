"""The challenge of a benchmark run: started, committed to, opened. What is proven by it: agent_protocol.challenge.

Every request names the run's nonce and the host's `attempt`: a fresh UUID for each time it begins anew. A repeated request
gets the same answer; a new attempt gets a new seed.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from agent_protocol.challenge import HASH_BYTES
from agent_protocol.errors import ProtocolError
from agent_protocol.fields import ListOf, Message, Text, UuidText, integer, messages, optional_number, text, wire

MAX_ROUNDS = 1024
MAX_OPENINGS = 256
MAX_BLOB_BYTES = 32 * 1024 * 1024
"""One transfer of a network measurement; several streams repeat it."""
NONCE_HEADER = "Benchmark-Nonce"
"""Carries the nonce of an upload, whose body is nothing but bytes."""
_HASH = rf"[0-9a-f]{{{2 * HASH_BYTES}}}"
# A path is as long as the tree is high: 14 for 16,384 rows.
_MAX_PATH = 16
_MAX_ROW = 65_535


def _hash() -> Any:
    return text(2 * HASH_BYTES, pattern=_HASH)


def _nonce() -> Any:
    return text(128, min_length=1)


@dataclass(frozen=True, kw_only=True)
class BenchStart(Message):
    """POST /agent/v1/bench/<run_id>/start: ready to begin; the clock runs from the answer on."""

    nonce: str = _nonce()
    attempt: str = wire(UuidText())


@dataclass(frozen=True, kw_only=True)
class BenchStarted(Message):
    """`seed` is made at this moment, so that nothing could be computed before."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    seed: str = _hash()


@dataclass(frozen=True, kw_only=True)
class BenchCommit(Message):
    """POST /agent/v1/bench/<run_id>/commit: the root of every round, in order. `product_s`: what the device multiplied."""

    nonce: str = _nonce()
    attempt: str = wire(UuidText())
    roots: tuple[str, ...] = wire(ListOf(Text(2 * HASH_BYTES, 0, _HASH), MAX_ROUNDS))
    product_s: float | None = optional_number(0, 86_400)


@dataclass(frozen=True, kw_only=True)
class BenchRow(Message):
    """A row of a round's product, both counted from 0."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    round: int = integer(0, MAX_ROUNDS - 1)
    row: int = integer(0, _MAX_ROW)


@dataclass(frozen=True, kw_only=True)
class BenchCommitted(Message):
    """The rows to open, chosen after the roots had come."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    openings: tuple[BenchRow, ...] = messages(BenchRow, MAX_OPENINGS)


@dataclass(frozen=True, kw_only=True)
class BenchOpening(Message):
    """A row's leaf, and the siblings from it up to the round's root."""

    round: int = integer(0, MAX_ROUNDS - 1)
    row: int = integer(0, _MAX_ROW)
    leaf: str = _hash()
    path: tuple[str, ...] = wire(ListOf(Text(2 * HASH_BYTES, 0, _HASH), _MAX_PATH))


@dataclass(frozen=True, kw_only=True)
class BenchOpen(Message):
    """POST /agent/v1/bench/<run_id>/open: exactly the rows that the commit's answer named, in its order."""

    nonce: str = _nonce()
    attempt: str = wire(UuidText())
    openings: tuple[BenchOpening, ...] = messages(BenchOpening, MAX_OPENINGS)

    def check(self) -> None:
        named = [(each.round, each.row) for each in self.openings]
        if len(set(named)) != len(named):
            raise ProtocolError("openings", "the same row twice", "each row once")


@dataclass(frozen=True, kw_only=True)
class BenchOpened(Message):
    """How many rows the platform will recompute."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    rows: int = integer(0, MAX_OPENINGS)


@dataclass(frozen=True, kw_only=True)
class BenchDownload(Message):
    """POST /agent/v1/bench/<run_id>/download: so many random bytes, please. The answer is bytes, not JSON."""

    nonce: str = _nonce()
    size_bytes: int = integer(1, MAX_BLOB_BYTES)


@dataclass(frozen=True, kw_only=True)
class BenchUploaded(Message):
    """Answer to POST /agent/v1/bench/<run_id>/upload, whose body is bytes: how many have arrived."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    received_bytes: int = integer(0, MAX_BLOB_BYTES)
