"""`agent status`: what this machine's agent last knew, read beside a running one."""

import sqlite3
from contextlib import closing
from pathlib import Path

from agent.clock import boot_id, boot_seconds

# Younger than the silence after which the platform itself begins to doubt a machine.
WITHIN_S = 45.0


def status_read(state: Path, within_s: float) -> tuple[bool, str]:
    """Whether the platform has accepted a sync in the last `within_s` seconds, and one line that begins with a word.

    The words, which the installer reads: `new` (not enrolled), `enrolled`, `online`.
    """
    database = state / "agent.sqlite3"
    if not database.exists():
        return False, "new: no agent has run here"
    # Not through StateStore: its lock belongs to the agent that runs.
    with closing(sqlite3.connect(f"file:{database}?mode=rw", uri=True, timeout=10)) as connection:
        row = connection.execute("SELECT machine_id, url, contact_boot_id, contact_boot_s FROM identity").fetchone()
    if row is None or row[0] is None:
        return False, "new: this machine is not enrolled"
    machine_id, url, contact_boot_id, contact_boot_s = row
    if contact_boot_s is None or contact_boot_id != boot_id():
        return False, f"enrolled: machine {machine_id}; {url} has not answered since this machine started"
    age = boot_seconds() - contact_boot_s
    word = "online" if age <= within_s else "enrolled"
    return age <= within_s, f"{word}: machine {machine_id}; {url} answered {age:.0f} s ago"
