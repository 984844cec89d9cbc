"""The journal: what happened, one JSON line each, so that the chain survives a restart.

    {"kind": "genesis", …}                                   first line, written whole or not at all
    {"kind": "block", "height", "time", "transactions"}      a block that is not empty
    {"kind": "rollback", "height", "branch"}                 everything above height is gone
    {"kind": "reached", "height"}                            heights up to here may have been shown to somebody

Empty blocks are not written. Instead the journal runs ahead: `reached` reserves the next RESERVE heights, and a restart
goes on from the last reservation, so that no height or blockhash that a client has seen is ever taken back.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
from pathlib import Path
from typing import IO, Any

from billing.chain.localnet.cluster import Block, Cluster, Finality
from billing.chain.localnet.genesis import Genesis, demo_genesis
from billing.chain.localnet.keys import NetworkKeys

RESERVE = 25  # blocks; ten seconds of the demo's clock


class JournalDamaged(Exception):
    """The journal cannot be read beyond doubt. Only a torn last line is repaired silently."""


class FolderInUse(Exception):
    """Another local network runs on this data folder."""


class Journal:
    """An append-only file. A line is written by one system call before its block can be seen by anybody."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("ab", buffering=0)
        self._reserved = 0

    def block_made(self, height: int, block: Block | None) -> None:
        if block is not None:
            encoded = [base64.b64encode(raw).decode() for raw in block.transactions]
            self._append({"kind": "block", "height": height, "time": block.time, "transactions": encoded})
        if height > self._reserved:
            self._reserved = height + RESERVE
            self._append({"kind": "reached", "height": self._reserved})

    def rolled_back(self, height: int, branch: str) -> None:
        self._reserved = height
        self._append({"kind": "rollback", "height": height, "branch": branch})

    def close(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()

    def _append(self, entry: dict[str, Any]) -> None:
        self._file.write(_line(entry))


class ChainStore:
    """A data folder with its journal, locked against a second process.

    Raises:
        FolderInUse: somebody else has it.
        JournalDamaged: a line other than the last is unreadable, or the keys are not those of the genesis.
    """

    def __init__(self, folder: Path, keys: NetworkKeys, finality: Finality) -> None:
        self._lock = (folder / "chain.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise FolderInUse(f"{folder}: another local network uses this folder") from None
        path = folder / "chain.jsonl"
        try:
            if not path.exists():
                _replace(path, [_line({"kind": "genesis", "version": 1} | demo_genesis(keys).to_json())])
            self.cluster = _load(path, keys, finality)
        except BaseException:
            self._lock.close()
            raise
        self._journal = Journal(path)
        self.cluster.log = self._journal

    def close(self) -> None:
        self._journal.close()
        self._lock.close()


def _load(path: Path, keys: NetworkKeys, finality: Finality) -> Cluster:
    entries = _read(path)
    if not entries or entries[0]["kind"] != "genesis":
        raise JournalDamaged(f"{path}: line 1 is not a genesis")
    genesis = Genesis.from_json(entries[0])
    if genesis.roles["hot_wallet"] != str(keys.hot_wallet.pubkey()):
        raise JournalDamaged(f"{path}: belongs to other keys than those in this folder")
    cluster = Cluster(genesis, finality)
    kept, reached = [entries[0]], 0
    try:
        for entry in entries[1:]:
            if entry["kind"] == "reached":
                reached = entry["height"]
                continue
            if entry["kind"] == "rollback":
                reached = 0
            _apply(cluster, entry)
            kept.append(entry)
    except (KeyError, ValueError) as error:
        raise JournalDamaged(f"{path}: {error!r}") from error
    if reached:
        cluster.advance_to(reached)
        kept.append({"kind": "reached", "height": reached})
    if len(kept) < len(entries):
        _replace(path, [_line(entry) for entry in kept])
    return cluster


def _apply(cluster: Cluster, entry: dict[str, Any]) -> None:
    match entry["kind"]:
        case "block":
            raws = tuple(base64.b64decode(encoded) for encoded in entry["transactions"])
            cluster.replay(Block(entry["height"], entry["time"], raws))
        case "rollback":
            cluster.rewind(entry["height"], entry["branch"])
        case kind:
            raise ValueError(f"kind: found {kind!r}")


def _read(path: Path) -> list[dict[str, Any]]:
    """The journal's entries. A last line that the writer's death cut short is removed from the file."""
    content = path.read_bytes()
    *lines, _torn = content.split(b"\n")
    entries: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            entry["kind"]
        except (KeyError, TypeError, ValueError):
            if number == len(lines):
                break
            raise JournalDamaged(f"{path}: line {number} is not an entry") from None
        entries.append(entry)
    good = sum(len(line) + 1 for line in lines[: len(entries)])
    if good < len(content):
        os.truncate(path, good)
    return entries


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def _replace(path: Path, lines: list[bytes]) -> None:
    """Write a whole file so that a crash leaves the old one or the new one."""
    temporary = path.with_suffix(".new")
    with temporary.open("wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
