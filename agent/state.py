"""What must survive a crash: identity, attempts, finished benchmarks, the outbox. SQLite, on disk at each commit.

No secret of a customer is here: an attempt's command and environment live in memory and in its container only.
"""

import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

from agent.clock import wall_iso
from agent.errors import AgentError
from agent_protocol.messages import Event

SCHEMA_VERSION = 3
# Above this, events that can be missed (Xids, orphans) are dropped; reports of ends never are.
OUTBOX_SOFT_LIMIT = 5_000

_SCHEMA = """
CREATE TABLE identity (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    idempotency_key TEXT NOT NULL, credential TEXT NOT NULL, url TEXT NOT NULL, machine_id TEXT,
    boot_id TEXT, sequence INTEGER NOT NULL DEFAULT 0, contact_boot_id TEXT, contact_boot_s REAL,
    next_credential TEXT, anew_key TEXT, anew_credential TEXT
);
CREATE TABLE attempt (
    attempt_id TEXT PRIMARY KEY, job_id TEXT NOT NULL, number INTEGER NOT NULL, token TEXT NOT NULL, name TEXT NOT NULL,
    state TEXT NOT NULL, boot_id TEXT NOT NULL, gpu_uuids TEXT NOT NULL, time_limit_s INTEGER NOT NULL,
    disconnect_grace_s INTEGER NOT NULL, disk_bytes INTEGER NOT NULL, log_limit_bytes INTEGER NOT NULL,
    created INTEGER NOT NULL, started_boot_s REAL, stop_reason TEXT, exit_code INTEGER, reason TEXT,
    elapsed_s INTEGER, log_sent INTEGER NOT NULL, log_done INTEGER NOT NULL
);
CREATE TABLE benchmark (run_id TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, subject TEXT, event TEXT NOT NULL
);
"""


# From the version before each to it; a folder is never brought back.
_UPGRADES = {
    2: "ALTER TABLE identity ADD COLUMN next_credential TEXT",
    3: "ALTER TABLE identity ADD COLUMN anew_key TEXT; ALTER TABLE identity ADD COLUMN anew_credential TEXT",
}


@dataclass(frozen=True)
class Identity:
    """`machine_id` is null until the platform has answered the enrolment."""

    idempotency_key: str
    credential: str
    url: str
    machine_id: str | None


@dataclass(frozen=True, kw_only=True)
class AttemptRecord:
    """One attempt as it stands on disk.

    `created`: the intent to create a container was written, so one may exist. `log_sent`: bytes the platform has.
    """

    attempt_id: str
    job_id: str
    number: int
    token: str
    name: str
    state: str
    boot_id: str
    gpu_uuids: tuple[str, ...]
    time_limit_s: int
    disconnect_grace_s: int
    disk_bytes: int
    log_limit_bytes: int
    created: bool = False
    started_boot_s: float | None = None
    stop_reason: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    elapsed_s: int | None = None
    log_sent: int = 0
    log_done: bool = False


_COLUMNS = tuple(each.name for each in fields(AttemptRecord))


class StateStore:
    """All methods are safe to call from any thread; each is one transaction."""

    def __init__(self, folder: Path) -> None:
        """Open or create the folder's store. Raises AgentError when another agent holds it or it is not usable."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise AgentError(f"--state: cannot use {folder}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock_file)
            raise AgentError(f"--state: another agent is using {folder}; stop it or choose another folder") from None
        self.folder = folder
        self._lock = threading.RLock()
        try:
            self._connection = self._open(folder / "agent.sqlite3")
        except (sqlite3.DatabaseError, AgentError) as error:
            os.close(self._lock_file)
            raise AgentError(f"--state: cannot read {folder / 'agent.sqlite3'}: {error}") from None

    @staticmethod
    def _open(path: Path) -> sqlite3.Connection:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        elif version < SCHEMA_VERSION:
            steps = "; ".join(_UPGRADES[step] for step in range(version + 1, SCHEMA_VERSION + 1))
            connection.executescript(f"BEGIN; {steps}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        elif version > SCHEMA_VERSION:
            connection.close()
            raise AgentError(f"written by another version of the agent (schema {version}, ours is {SCHEMA_VERSION})")
        return connection

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            os.close(self._lock_file)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    # Identity

    def identity_get(self) -> Identity | None:
        with self._lock:
            row = self._connection.execute(
                "SELECT idempotency_key, credential, url, machine_id FROM identity"
            ).fetchone()
        return None if row is None else Identity(*row)

    def identity_create(self, *, credential: str, url: str) -> Identity:
        """A new identity, on disk before it is used for the first time."""
        identity = Identity(str(uuid4()), credential, url, None)
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO identity (only, idempotency_key, credential, url) VALUES (1, ?, ?, ?)",
                (identity.idempotency_key, identity.credential, identity.url),
            )
        return identity

    def identity_confirm(self, machine_id: str) -> None:
        with self._transaction() as connection:
            connection.execute("UPDATE identity SET machine_id = ?", (machine_id,))

    def credential_next(self, made: str) -> str:
        """The credential that is to follow; `made` unless one was written down before. On disk before it is told to anybody."""
        with self._transaction() as connection:
            connection.execute("UPDATE identity SET next_credential = ? WHERE next_credential IS NULL", (made,))
            credential: str = connection.execute("SELECT next_credential FROM identity").fetchone()[0]
        return credential

    def credential_switch(self) -> None:
        """The platform takes the next credential: it is the one from now on, on disk before it is used."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE identity SET credential = next_credential, next_credential = NULL WHERE next_credential IS NOT NULL"
            )

    def identity_anew(self, credential: str) -> tuple[str, str]:
        """(idempotency key, credential) of the enrolment anew that is under way, or of one that begins now, on disk."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE identity SET anew_key = ?, anew_credential = ? WHERE anew_key IS NULL",
                (str(uuid4()), credential),
            )
            row = connection.execute("SELECT anew_key, anew_credential FROM identity").fetchone()
        return row["anew_key"], row["anew_credential"]

    def identity_anew_end(self, machine_id: str | None) -> None:
        """The platform has answered: this is who we are from now on; null: it said no, and nothing has changed."""
        with self._transaction() as connection:
            if machine_id is not None:
                connection.execute(
                    "UPDATE identity SET idempotency_key = anew_key, credential = anew_credential, machine_id = ?, "
                    "next_credential = NULL",
                    (machine_id,),
                )
            connection.execute("UPDATE identity SET anew_key = NULL, anew_credential = NULL")

    def sequence_next(self, boot_id: str) -> int:
        """The next sync's sequence, on disk before it is sent; starts at 1 in each boot."""
        with self._transaction() as connection:
            row = connection.execute("SELECT boot_id, sequence FROM identity").fetchone()
            sequence: int = row["sequence"] + 1 if row["boot_id"] == boot_id else 1
            connection.execute("UPDATE identity SET boot_id = ?, sequence = ?", (boot_id, sequence))
        return sequence

    def contact_note(self, boot_id: str, boot_s: float) -> None:
        """The platform accepted a sync at this moment."""
        with self._transaction() as connection:
            connection.execute("UPDATE identity SET contact_boot_id = ?, contact_boot_s = ?", (boot_id, boot_s))

    def contact_get(self, boot_id: str) -> float | None:
        """When, in this boot, the platform last accepted a sync."""
        with self._lock:
            row = self._connection.execute("SELECT contact_boot_id, contact_boot_s FROM identity").fetchone()
        return row["contact_boot_s"] if row is not None and row["contact_boot_id"] == boot_id else None

    # Attempts

    def attempts(self) -> list[AttemptRecord]:
        with self._lock:
            rows = self._connection.execute("SELECT * FROM attempt ORDER BY rowid").fetchall()
        return [_record_of(row) for row in rows]

    def attempt_put(self, record: AttemptRecord) -> None:
        """Insert or replace."""
        with self._transaction() as connection:
            _attempt_write(connection, record)

    def attempt_log_sent(self, attempt_id: str, sent: int, *, done: bool) -> None:
        with self._transaction() as connection:
            connection.execute(
                "UPDATE attempt SET log_sent = ?, log_done = ? WHERE attempt_id = ?", (sent, int(done), attempt_id)
            )

    def attempt_end(self, record: AttemptRecord, event: dict[str, Any]) -> None:
        """The end and its report are on disk together or not at all."""
        with self._transaction() as connection:
            _attempt_write(connection, record)
            _outbox_write(connection, "attempt_ended", event, subject=record.attempt_id)

    def attempt_delete(self, attempt_id: str) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM attempt WHERE attempt_id = ?", (attempt_id,))

    # Benchmarks

    def benchmarks(self) -> dict[str, str]:
        """State (done or failed) of each finished run that the plan may still name."""
        with self._lock:
            return dict(self._connection.execute("SELECT run_id, state FROM benchmark").fetchall())

    def benchmark_end(self, run_id: str, state: str, kind: str, event: dict[str, Any]) -> None:
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO benchmark VALUES (?, ?)", (run_id, state))
            _outbox_write(connection, kind, event, subject=run_id)

    def benchmark_delete(self, run_id: str) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM benchmark WHERE run_id = ?", (run_id,))

    # Outbox

    def outbox_add(self, kind: str, body: dict[str, Any]) -> None:
        """An event that may be lost when thousands are waiting already."""
        with self._transaction() as connection:
            waiting = connection.execute("SELECT count(*) FROM outbox").fetchone()[0]
            if waiting < OUTBOX_SOFT_LIMIT:
                _outbox_write(connection, kind, body, subject=None)

    def outbox_batch(self, limit: int) -> list[Event]:
        """The oldest events, at most `limit`."""
        with self._lock:
            rows = self._connection.execute("SELECT event FROM outbox ORDER BY number LIMIT ?", (limit,)).fetchall()
        return [Event.parse(json.loads(row["event"])) for row in rows]

    def outbox_remove(self, ids: list[str]) -> None:
        with self._transaction() as connection:
            connection.executemany("DELETE FROM outbox WHERE id = ?", [(each,) for each in ids])

    def outbox_waits(self, subject: str) -> bool:
        """Whether a report about this attempt or run has not arrived yet."""
        with self._lock:
            row = self._connection.execute("SELECT 1 FROM outbox WHERE subject = ? LIMIT 1", (subject,)).fetchone()
        return row is not None


def _record_of(row: sqlite3.Row) -> AttemptRecord:
    values = {name: row[name] for name in _COLUMNS}
    values["gpu_uuids"] = tuple(json.loads(values["gpu_uuids"]))
    values["created"] = bool(values["created"])
    values["log_done"] = bool(values["log_done"])
    return AttemptRecord(**values)


def _attempt_write(connection: sqlite3.Connection, record: AttemptRecord) -> None:
    """The log columns belong to `attempt_log_sent` once the row exists."""
    values = asdict(record)
    values["gpu_uuids"] = json.dumps(record.gpu_uuids)
    kept = ("attempt_id", "log_sent", "log_done")
    updates = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in kept)
    marks = ", ".join(f":{name}" for name in _COLUMNS)
    connection.execute(
        f"INSERT INTO attempt ({', '.join(_COLUMNS)}) VALUES ({marks}) "
        f"ON CONFLICT (attempt_id) DO UPDATE SET {updates}",
        values,
    )


def _outbox_write(connection: sqlite3.Connection, kind: str, body: dict[str, Any], *, subject: str | None) -> None:
    event = Event(id=str(uuid4()), kind=kind, occurred_at=wall_iso(), body=body)
    event.typed_body()
    connection.execute(
        "INSERT INTO outbox (id, subject, event) VALUES (?, ?, ?)", (event.id, subject, json.dumps(event.to_dict()))
    )
