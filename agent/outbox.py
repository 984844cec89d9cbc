"""Sends the outbox: at least once, in order, for as long as it takes."""

import logging
import threading

from agent.client import ClientError, PlatformClient, Refused, SlowDown, Unauthorized
from agent.pacing import Alarm, Backoff
from agent.state import StateStore
from agent_protocol.messages import MAX_EVENTS, Event, EventBatch

IDLE_S = 5.0

log = logging.getLogger("agent.outbox")


class OutboxSender:
    def __init__(
        self, client: PlatformClient, store: StateStore, alarm: Alarm, sync_alarm: Alarm, stop: threading.Event
    ) -> None:
        self._client = client
        self._store = store
        self._alarm = alarm
        self._sync_alarm = sync_alarm
        self._stop = stop
        self._single = False

    def run(self) -> None:
        backoff = Backoff(0.5, 60.0)
        while not self._stop.is_set():
            batch = self._store.outbox_batch(1 if self._single else MAX_EVENTS)
            if not batch:
                self._single = False
                self._alarm.wait(IDLE_S)
                continue
            try:
                self._send(batch)
                backoff.reset()
            except SlowDown as error:
                self._stop.wait(error.retry_after_s)
            except ClientError as error:
                if isinstance(error, Unauthorized):
                    # The sync thread decides what a refused credential means.
                    self._sync_alarm.ring()
                wait = backoff.next()
                log.warning("events not taken", extra={"why": str(error), "retry_in_s": round(wait, 2)})
                self._stop.wait(wait)

    def _send(self, batch: list[Event]) -> None:
        """Raises ClientError when nothing of the batch was taken."""
        ours = {event.id for event in batch}
        try:
            reply = self._client.events(EventBatch(events=tuple(batch)))
        except Refused as error:
            if error.status not in (400, 413, 422):
                raise
            self._poisoned(batch, error)
            return
        for refused in reply.refused:
            log.error("an event was refused", extra={"id": refused.id, "code": refused.code})
        taken = ours & ({*reply.accepted} | {refused.id for refused in reply.refused})
        if not taken:
            raise ClientError("the platform took none of the events")
        self._store.outbox_remove(sorted(taken))
        # Ended attempts are forgotten once their report has arrived.
        self._sync_alarm.ring()

    def _poisoned(self, batch: list[Event], error: Refused) -> None:
        """One event spoils its batch: send them singly, and drop the one that is refused alone."""
        if len(batch) > 1:
            self._single = True
            return
        log.error("an event can never be sent and is dropped", extra={"id": batch[0].id, "code": error.code})
        self._store.outbox_remove([batch[0].id])
