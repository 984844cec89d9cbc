"""Ships jobs' output: bytes at offsets, resumed where the platform says."""

import logging
import threading

from agent.attempts import ENDED
from agent.client import ClientError, PlatformClient, Refused, SlowDown, Unauthorized
from agent.pacing import Alarm, Backoff
from agent.runtime.base import EngineUnavailable, JobRuntime
from agent.state import AttemptRecord, StateStore
from agent_protocol.messages import MAX_LOG_CHUNK_BYTES, LogChunk

EVERY_S = 0.5
# Chunks of one job in a row before the next job has its turn.
BURST = 16
# A platform that answers every offset with another one will not be satisfied by a fourth.
MAX_CONFLICTS = 3

log = logging.getLogger("agent.logs")


class LogShipper:
    """One thread for all jobs. The offset on disk is a hint: after a conflict the platform's word counts."""

    def __init__(
        self, client: PlatformClient, store: StateStore, runtime: JobRuntime, alarm: Alarm, stop: threading.Event
    ) -> None:
        self._client = client
        self._store = store
        self._runtime = runtime
        self._alarm = alarm
        self._stop = stop
        self._conflicts: dict[str, int] = {}

    def run(self) -> None:
        backoff = Backoff(0.5, 30.0)
        while not self._stop.is_set():
            try:
                self.round()
                backoff.reset()
                self._alarm.wait(EVERY_S)
                continue
            except SlowDown as error:
                wait = error.retry_after_s
            except (ClientError, EngineUnavailable) as error:
                wait = backoff.next()
                log.warning("log not taken", extra={"why": str(error), "retry_in_s": round(wait, 2)})
            self._stop.wait(wait)

    def round(self) -> None:
        """A turn for every job that has output waiting. Raises ClientError when the platform does not answer."""
        for record in self._store.attempts():
            if not record.log_done and (record.created or record.state == ENDED):
                self._ship(record)

    def _ship(self, record: AttemptRecord) -> None:
        sent = record.log_sent
        for _ in range(BURST):
            # `complete` counts only once the end is on disk: until then the runtime may still be draining.
            part = self._runtime.log_read(record.name, sent, MAX_LOG_CHUNK_BYTES)
            final = part.complete and record.state == ENDED
            if not part.content and not final:
                return
            chunk = LogChunk.of(token=record.token, offset=sent, content=part.content, final=final)
            try:
                reached = self._client.logs(record.attempt_id, chunk).next_offset
                self._conflicts.pop(record.attempt_id, None)
            except Unauthorized:
                raise
            except Refused as error:
                resumed = self._refused(record, error)
                if resumed is None:
                    return
                sent = resumed
                continue
            done = final and reached >= sent + len(part.content)
            sent = reached
            self._store.attempt_log_sent(record.attempt_id, sent, done=done)
            if done:
                return

    def _refused(self, record: AttemptRecord, error: Refused) -> int | None:
        """Where to go on, or null when there is nothing more to say about this log."""
        conflicts = self._conflicts[record.attempt_id] = self._conflicts.get(record.attempt_id, 0) + 1
        if error.status == 409 and error.next_offset is not None and conflicts <= MAX_CONFLICTS:
            self._store.attempt_log_sent(record.attempt_id, error.next_offset, done=False)
            return error.next_offset
        if error.code == "stale_token" or record.state == ENDED or conflicts > MAX_CONFLICTS:
            log.error("the log is given up", extra={"attempt": record.attempt_id, "code": error.code})
            self._store.attempt_log_sent(record.attempt_id, record.log_sent, done=True)
        return None
