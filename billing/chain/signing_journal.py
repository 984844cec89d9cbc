"""The signer's own memory, so that not even a bug or an intruder in the worker can make it sign without measure.

It knows nothing of our database. One JSON line per signed message is on disk before the signature leaves:

    {"at": Unix seconds, "payout", "digest", "destination", "amount_micro"}
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

from billing.chain.errors import KeyFileRefused, PayoutShapeRefused
from billing.chain.transactions import PayoutShape

DAY_SECONDS = 86_400
# 150 blocks of 0.4 s: before that an earlier transaction of the same payout can still land, whatever anybody says.
RESIGN_AFTER_SECONDS = 60
MESSAGES_PER_PAYOUT = 20  # a payout that expired twenty times needs a person


@dataclass(frozen=True, slots=True)
class SigningCaps:
    """How much may be signed in any 24 hours: in all, and to one destination. Each payout counts once."""

    day_micro: int
    destination_day_micro: int
    resign_after_seconds: int = RESIGN_AFTER_SECONDS
    messages_per_payout: int = MESSAGES_PER_PAYOUT


class SigningJournal:
    """Append-only file, shared between processes by a lock; it must belong to us and to nobody else.

    Args:
        now: Unix seconds.
    """

    def __init__(self, path: Path, caps: SigningCaps, now: Callable[[], int]) -> None:
        self._path = path
        self._caps = caps
        self._now = now
        self._entries: list[dict[str, Any]] = []
        self._digests: set[str] = set()
        self._by_payout: dict[str, list[dict[str, Any]]] = {}
        self._read_to = 0

    def record(self, shape: PayoutShape, message: bytes) -> None:
        """Note that `message` is about to be signed. The same message again is no new signature and always allowed.

        Raises:
            PayoutShapeRefused: signing would break a cap, or contradicts what was signed for this payout before.
            KeyFileRefused: the journal is not ours alone, or damaged; without it nothing is signed.
        """
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "r+b", buffering=0) as file:
            facts = os.fstat(handle)
            if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
                raise KeyFileRefused(f"{self._path}: must be ours and closed to others")
            fcntl.flock(handle, fcntl.LOCK_EX)
            self._catch_up(file)
            entry = {
                "at": self._now(),
                "payout": str(shape.payout_id),
                "digest": hashlib.sha256(message).hexdigest(),
                "destination": shape.destination_account,
                "amount_micro": shape.amount_micro,
            }
            if entry["digest"] in self._digests:
                return
            self._check(entry)
            file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
            os.fsync(handle)

    def latest(self) -> dict[str, Any] | None:
        """The entry written last; None when nothing was signed. Raises KeyFileRefused like ``record``."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "rb", buffering=0) as file:
            fcntl.flock(handle, fcntl.LOCK_SH)
            self._catch_up(file)
        return self._entries[-1] if self._entries else None

    def _catch_up(self, file: IO[bytes]) -> None:
        """Read what was written since, by this process or another."""
        try:
            if os.fstat(file.fileno()).st_size < self._read_to:
                raise ValueError("it became shorter")
            file.seek(self._read_to)
            content = file.read()
            if content and not content.endswith(b"\n"):
                raise ValueError("torn last line")
            entries = [_entry(line) for line in content.splitlines()]
        except (KeyError, TypeError, ValueError) as error:
            # Unlike the local network's journal this one is never repaired: what it forgot could be signed twice.
            raise KeyFileRefused(f"{self._path}: damaged ({error!r}); a person has to look") from error
        self._read_to += len(content)
        self._entries += entries
        for entry in entries:
            self._digests.add(entry["digest"])
            self._by_payout.setdefault(entry["payout"], []).append(entry)

    def _check(self, new: dict[str, Any]) -> None:
        caps, earlier = self._caps, self._by_payout.get(new["payout"], [])
        for entry in earlier:
            if (entry["destination"], entry["amount_micro"]) != (new["destination"], new["amount_micro"]):
                was = f"{entry['amount_micro']} micro-USDC to {entry['destination']}"
                raise PayoutShapeRefused("payout_changed", f"{new['payout']} was signed before as {was}")
        if len(earlier) >= caps.messages_per_payout:
            raise PayoutShapeRefused("too_many_attempts", f"found {len(earlier)}, allowed {caps.messages_per_payout}")
        if earlier and new["at"] - earlier[-1]["at"] < caps.resign_after_seconds:
            waited = new["at"] - earlier[-1]["at"]
            raise PayoutShapeRefused(
                "signed_too_soon", f"found {waited} s since the last, allowed from {caps.resign_after_seconds} s"
            )
        day = takewhile(lambda entry: entry["at"] > new["at"] - DAY_SECONDS, reversed(self._entries))
        recent = ({entry["payout"]: entry for entry in day} | {new["payout"]: new}).values()
        total = sum(entry["amount_micro"] for entry in recent)
        if total > caps.day_micro:
            raise PayoutShapeRefused("day_cap", f"found {total} micro-USDC in 24 hours, allowed {caps.day_micro}")
        there = sum(entry["amount_micro"] for entry in recent if entry["destination"] == new["destination"])
        if there > caps.destination_day_micro:
            raise PayoutShapeRefused(
                "destination_day_cap",
                f"found {there} micro-USDC to {new['destination']} in 24 hours, allowed {caps.destination_day_micro}",
            )


def _entry(line: bytes) -> dict[str, Any]:
    """Raises KeyError, TypeError or ValueError for what is no entry."""
    value = json.loads(line)
    return {
        "at": int(value["at"]),
        "payout": str(value["payout"]),
        "digest": str(value["digest"]),
        "destination": str(value["destination"]),
        "amount_micro": int(value["amount_micro"]),
    }
