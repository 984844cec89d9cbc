"""The doorbell's listener. It only ever means "sync now"; without it everything happens at the pace of the heartbeat."""

import logging
import threading

from agent.client import ClientError, PlatformClient
from agent.clock import boot_seconds
from agent.pacing import Alarm, Backoff
from agent.sync import SyncLoop

# A stream that held this long was a good one: its end is no reason to wait longer than the first time.
STEADY_S = 10.0

log = logging.getLogger("agent.bell")


class BellFollower:
    """Holds the event stream open, and opens it again with the newest ticket when it ends."""

    def __init__(self, client: PlatformClient, loop: SyncLoop, sync_alarm: Alarm, stop: threading.Event) -> None:
        self._client = client
        self._loop = loop
        self._sync_alarm = sync_alarm
        self._stop = stop

    def run(self) -> None:
        backoff = Backoff(1.0, 60.0)
        while not self._stop.is_set() and not self._loop.revoked.is_set():
            ticket = self._loop.bell()
            if ticket is None:
                self._loop.synced.wait(0.5)
                self._stop.wait(0.05)
                continue
            opened = boot_seconds()
            try:
                with self._client.bell(ticket.path, ticket.ticket) as lines:
                    # Something may have happened while nobody listened.
                    self._sync_alarm.ring()
                    for line in lines:
                        if self._stop.is_set():
                            return
                        if line.startswith("event:"):
                            self._event(line.partition(":")[2].strip())
            except ClientError as error:
                log.info("the doorbell is silent", extra={"why": str(error)})
            if boot_seconds() - opened > STEADY_S:
                backoff.reset()
            self._stop.wait(backoff.next())

    def _event(self, name: str) -> None:
        """A ring, or a revocation, which the next sync will hear from the platform itself: a bell has no authority."""
        if name in ("ring", "revoke"):
            self._sync_alarm.ring()
