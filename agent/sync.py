"""The heartbeat: says what is, hears what should be."""

import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from agent.benchmarks import BenchmarkManager
from agent.client import ClientError, PlatformClient, SlowDown, Unauthorized, UpgradeRequired
from agent.clock import boot_id, wall_iso
from agent.contact import Contact
from agent.enrolment import credential_make
from agent.pacing import Alarm, Backoff, spread
from agent.reconciler import Reconciler
from agent.state import StateStore
from agent.watch import HostWatch
from agent_protocol.messages import BellTicket, CredentialRequest, SyncReply, SyncRequest, inventory_digest
from agent_protocol.messages.sync import MAX_ATTEMPTS, MAX_BENCHMARKS
from agent_protocol.version import AGENT_VERSION, PROTOCOL

DEFAULT_INTERVAL_S = 15.0
# The platform suspects a host after 45 s of silence; trying every half minute meets it again early.
LONGEST_RETRY_S = 30.0
# However often the bell rings: a storm of rings is one sync, and the next after this.
SHORTEST_GAP_S = 0.1
# A plan older than ours is a stale copy; the third time in a row it is the platform's real state (a restored backup).
STALE_PLANS_BELIEVED = 3
# More than any request takes. The platform stamps everything itself, so a wrong clock breaks nothing.
CLOCK_SKEW_S = 30.0

log = logging.getLogger("agent.sync")


@dataclass(frozen=True)
class SyncParts:
    client: PlatformClient
    store: StateStore
    watch: HostWatch
    reconciler: Reconciler
    benchmarks: BenchmarkManager
    contact: Contact


class SyncLoop:
    """One thread, one request at a time, so that replies can never overtake each other."""

    def __init__(self, parts: SyncParts, alarm: Alarm, stop: threading.Event, interval_s: float | None) -> None:
        """`interval_s` null: the platform says how often."""
        self._parts = parts
        self._alarm = alarm
        self._stop = stop
        self._interval = interval_s
        self._plan_version: int | None = None
        self._stale = 0
        self._inventory_wanted = True
        self._upgrade_required = False
        self._bell: BellTicket | None = None
        self._clock_wrong = False
        self.revoked = threading.Event()
        self.synced = threading.Event()

    def bell(self) -> BellTicket | None:
        """The newest ticket; null before the first reply."""
        return self._bell

    def run(self) -> None:
        backoff = Backoff(
            min(1.0, self._interval or 1.0), min(LONGEST_RETRY_S, 10 * (self._interval or LONGEST_RETRY_S))
        )
        while not self._stop.is_set() and not self.revoked.is_set():
            try:
                wanted_s = self.once()
            except SlowDown as error:
                # The bell does not shorten this wait: the platform has asked for quiet.
                self._stop.wait(error.retry_after_s)
            except Unauthorized as error:
                if error.revoked:
                    log.error("the platform has revoked this machine")
                    self.revoked.set()
                else:
                    self._failed(error, backoff)
            except ClientError as error:
                self._upgrade_required = isinstance(error, UpgradeRequired)
                self._failed(error, backoff)
            else:
                backoff.reset()
                self._stop.wait(SHORTEST_GAP_S)
                self._alarm.wait(spread(self._interval or wanted_s))

    def _failed(self, error: ClientError, backoff: Backoff) -> None:
        wait = backoff.next()
        log.warning("sync failed", extra={"why": str(error), "retry_in_s": round(wait, 2)})
        self._stop.wait(wait)

    def once(self) -> float:
        """One sync; the seconds until the next. Raises ClientError."""
        parts = self._parts
        request = self._request()
        reply = parts.client.sync(request)
        parts.contact.note()
        self._upgrade_required = False
        self._inventory_wanted = reply.inventory_wanted
        self._bell = reply.bell
        self._plan_take(reply)
        parts.contact.keep()
        parts.reconciler.tidy()
        self._clock_compare(reply.server_time)
        self.synced.set()
        if reply.rotate_credential:
            self._credential_change()
        return reply.sync_after_s or DEFAULT_INTERVAL_S

    def _credential_change(self) -> None:
        """Announce the next credential, then use it. Without an answer the old one goes on, and the next sync asks again."""
        parts = self._parts
        following = parts.store.credential_next(credential_make())
        try:
            parts.client.credential(CredentialRequest(credential=following))
        except ClientError as error:
            log.warning("the credential was not changed", extra={"why": str(error)})
            return
        parts.store.credential_switch()
        parts.client.authorize(following)
        log.info("the credential was changed")
        # The first sync under the new one ends the old one.
        self._alarm.ring()

    def _clock_compare(self, server_time: str) -> None:
        """A wrong clock is the provider's to mend; nothing here depends on it. Said once when it goes wrong."""
        try:
            behind = (datetime.fromisoformat(server_time) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return
        wrong = abs(behind) > CLOCK_SKEW_S
        if wrong and not self._clock_wrong:
            log.warning("the clock of this machine is wrong: set it by NTP", extra={"behind_s": round(behind)})
        self._clock_wrong = wrong

    def _request(self) -> SyncRequest:
        parts = self._parts
        inventory = parts.watch.inventory()
        reading = parts.watch.reading()
        assert inventory is not None, "the service looks at the host before it starts to sync"
        degraded = reading.degraded + (("upgrade_required",) if self._upgrade_required else ())
        return SyncRequest(
            protocol=PROTOCOL,
            sequence=parts.store.sequence_next(boot_id()),
            boot_id=boot_id(),
            agent_version=AGENT_VERSION,
            sent_at=wall_iso(),
            plan_version=self._plan_version,
            degraded=degraded,
            inventory_digest=inventory_digest(inventory),
            inventory=inventory if self._inventory_wanted else None,
            telemetry=reading.telemetry,
            attempts=parts.reconciler.statuses()[:MAX_ATTEMPTS],
            benchmarks=parts.benchmarks.statuses()[:MAX_BENCHMARKS],
        )

    def _plan_take(self, reply: SyncReply) -> None:
        """Adopt the plan in a reply. Without items nothing changes, whatever version it names: we ask again with ours."""
        if reply.plan is None:
            return
        if self._plan_version is not None and reply.plan_version < self._plan_version:
            self._stale += 1
            if self._stale < STALE_PLANS_BELIEVED:
                log.warning("a stale plan is ignored", extra={"version": reply.plan_version})
                return
        self._stale = 0
        self._parts.reconciler.apply(reply.plan)
        self._plan_version = reply.plan_version
