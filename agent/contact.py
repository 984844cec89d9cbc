"""How long the platform has been silent."""

import threading

from agent.clock import boot_id, boot_seconds
from agent.state import StateStore


class Contact:
    """The last sync that the platform accepted, on disk too: a restart of the agent does not restart the silence."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._boot_id = boot_id()
        self._lock = threading.Lock()
        noted = store.contact_get(self._boot_id)
        # After a reboot, or before the first sync, the silence begins now.
        self._last = boot_seconds() if noted is None else noted

    def note(self) -> None:
        """The platform has accepted a sync."""
        with self._lock:
            self._last = boot_seconds()

    def keep(self) -> None:
        """Write down when that was. Apart from `note`, because the disk takes milliseconds in which a job could start."""
        with self._lock:
            last = self._last
        self._store.contact_note(self._boot_id, last)

    def silence_s(self) -> float:
        with self._lock:
            return boot_seconds() - self._last
