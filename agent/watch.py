"""The latest look at GPUs and host, taken in a thread of its own so that a hanging driver never delays a heartbeat."""

import logging
import threading
from dataclasses import replace

from agent.clock import boot_seconds, wall_iso
from agent.config import Settings
from agent.disk import disk_read
from agent.host import host_read
from agent.pacing import Alarm
from agent.probe.base import GpuProbe, ProbeReading
from agent.runtime.base import EngineFacts, EngineUnavailable, JobRuntime
from agent.state import StateStore
from agent_protocol.messages import GpuXid, Host, Inventory
from agent_protocol.reasons import FAULT_XIDS, LOST_XIDS

# Three looks while an idle GPU is judged (foreign processes, leftover memory) fit into a minute.
LOOK_EVERY_S = 10.0
# A reading older than this is not sent as if it were the present.
STALE_S = 45.0
# The pace of the looks and the time one may take: a card that was free so lately needs no look of its own before a start.
FRESH_S = LOOK_EVERY_S + 5.0

# An idle card's driver keeps some hundred MiB at most; a twentieth of the memory is more than that on every card.
MEMORY_HELD_SHARE = 0.05

log = logging.getLogger("agent.watch")


class HostWatch:
    """Thread-safe view of the last look."""

    def __init__(self, settings: Settings, probe: GpuProbe, store: StateStore, changed: Alarm) -> None:
        self._settings = settings
        self._probe = probe
        self._store = store
        self._changed = changed
        self._runtime: JobRuntime | None = None
        self._lock = threading.Lock()
        self._look_lock = threading.Lock()
        self._reading = ProbeReading(degraded=())
        self._read_at = float("-inf")
        self._host: Host | None = None
        self._engine_down = False
        self._runtime_degraded: tuple[str, ...] = ()
        # GPU UUID to when its last hardware fault was seen, and which reason it gives a job that ends after it.
        self._faults: dict[str, tuple[float, str]] = {}
        self._in_use: frozenset[str] = frozenset()
        # GPUs whose job has ended, until a look finds their memory free.
        self._used: set[str] = set()
        # GPU UUID to the beginning of the last look that found its memory free, and to when somebody of ours let go of it.
        self._free_at: dict[str, float] = {}
        self._left_at: dict[str, float] = {}

    def runtime_set(self, runtime: JobRuntime) -> None:
        self._runtime = runtime

    def busy(self, uuids: frozenset[str]) -> None:
        """Which GPUs are somebody's from now on."""
        with self._lock:
            now = boot_seconds()
            self._left_at |= dict.fromkeys(self._in_use - uuids, now)
            self._used = (self._used | self._in_use) - uuids
            self._in_use = uuids
        self._probe.busy(uuids)

    def look(self) -> None:
        """Read everything once. Callers take turns: there is one conversation with the driver."""
        with self._look_lock:
            self._look()

    def _look(self) -> None:
        began = boot_seconds()
        reading = self._offered(self._probe.read())
        engine_down, facts = self._engine()
        runtime_degraded = self._runtime_look(engine_down)
        with self._lock:
            known = self._host
        if facts is None:
            facts = (
                EngineFacts()
                if known is None
                else EngineFacts(
                    engine=known.engine,
                    engine_version=known.engine_version,
                    operating_system=known.os,
                    kernel=known.kernel,
                )
            )
        host = host_read(self._settings, facts, reading.driver_version, reading.cuda_version)
        for uuid, xid in reading.xids:
            log.warning("the driver reports an Xid", extra={"gpu": uuid, "xid": xid})
            self._store.outbox_add("gpu_xid", GpuXid(uuid=uuid, xid=xid, at=wall_iso()).to_dict())
        with self._lock:
            before = self._state()
            self._reading, self._read_at, self._host, self._engine_down = reading, boot_seconds(), host, engine_down
            self._faults_note(reading)
            self._memory_note(began)
            self._runtime_degraded = runtime_degraded
            changed = self._state() != before
        if changed:
            self._changed.ring()

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_EVERY_S):
            self.look()

    def inventory(self) -> Inventory | None:
        """Null before the first look."""
        with self._lock:
            if self._host is None:
                return None
            reading = self._reading
            return Inventory(
                host=self._host,
                gpus=reading.gpus,
                driver_version=reading.driver_version,
                cuda_version=reading.cuda_version,
            )

    def reading(self) -> ProbeReading:
        """The last look; when it is too old, without telemetry and saying so."""
        with self._lock:
            degraded = list(self._reading.degraded)
            stale = boot_seconds() - self._read_at > STALE_S
            if stale and "nvml_timeout" not in degraded:
                degraded.append("nvml_timeout")
            if self._engine_down:
                degraded.append("engine_unavailable")
            if self._disk_is_low():
                degraded.append("disk_low")
            degraded.extend(self._runtime_degraded)
            telemetry = () if stale else self._reading.telemetry
            return replace(self._reading, telemetry=telemetry, degraded=tuple(degraded))

    def memory_held(self, uuids: tuple[str, ...]) -> list[str]:
        """Those of which the last look found memory in use. What a card does not say proves nothing, and simulated ones
        say what their job would use."""
        with self._lock:
            return (
                []
                if self._probe.simulated
                else [uuid for uuid in uuids if self._memory_share(uuid) > MEMORY_HELD_SHARE]
            )

    def _memory_share(self, uuid: str) -> float:
        total = next((gpu.memory_bytes for gpu in self._reading.gpus if gpu.uuid == uuid), None)
        used = next((each.memory_used_bytes for each in self._reading.telemetry if each.uuid == uuid), None)
        return 0.0 if total is None or used is None else used / total

    def memory_known_free(self, uuids: tuple[str, ...]) -> bool:
        """Whether a fresh look found the memory of all of them free, and nobody of ours has had one since it began."""
        now, never = boot_seconds(), float("-inf")
        with self._lock:
            return all(
                self._free_at.get(uuid, never) > max(now - FRESH_S, self._left_at.get(uuid, never)) for uuid in uuids
            )

    def _memory_note(self, began: float) -> None:
        """What was not given back is told with the reading; what is free is forgotten. A card that does not say how much of
        its memory is in use is not known to be free."""
        free = {
            each.uuid
            for each in self._reading.telemetry
            if each.memory_used_bytes is not None
            and (self._probe.simulated or self._memory_share(each.uuid) <= MEMORY_HELD_SHARE)
        }
        self._free_at = {} if self._reading.degraded else dict.fromkeys(free, began)
        self._used = {uuid for uuid in self._used if self._memory_share(uuid) > MEMORY_HELD_SHARE}
        telemetry = (
            replace(each, held_after_job=True) if each.uuid in self._used else each for each in self._reading.telemetry
        )
        self._reading = replace(self._reading, telemetry=tuple(telemetry))

    def gpu_present(self, uuid: str) -> bool:
        with self._lock:
            return any(gpu.uuid == uuid and gpu.health != "lost" for gpu in self._reading.gpus)

    def fault_since(self, uuids: tuple[str, ...], since_boot_s: float) -> str | None:
        """gpu_lost or gpu_fault when one of these cards failed after that moment."""
        with self._lock:
            found = [self._faults[uuid][1] for uuid in uuids if self._faults.get(uuid, (-1.0, ""))[0] >= since_boot_s]
        return "gpu_lost" if "gpu_lost" in found else found[0] if found else None

    def _state(self) -> tuple[object, ...]:
        """What the platform should hear of at once."""
        healths = tuple(sorted((gpu.uuid, gpu.health) for gpu in self._reading.gpus))
        return healths, self._reading.degraded, self._engine_down, self._runtime_degraded

    def _faults_note(self, reading: ProbeReading) -> None:
        now = boot_seconds()
        for uuid, xid in reading.xids:
            if xid in FAULT_XIDS:
                self._faults[uuid] = (now, "gpu_lost" if xid in LOST_XIDS else "gpu_fault")
        for gpu in reading.gpus:
            if gpu.health == "lost":
                self._faults[gpu.uuid] = (now, "gpu_lost")

    def _offered(self, reading: ProbeReading) -> ProbeReading:
        """Only the GPUs that the provider offers; the others are nobody's business."""
        offered = self._settings.gpus
        if offered is None:
            return reading
        return replace(
            reading,
            gpus=tuple(gpu for gpu in reading.gpus if gpu.uuid in offered),
            telemetry=tuple(each for each in reading.telemetry if each.uuid in offered),
            xids=tuple((uuid, xid) for uuid, xid in reading.xids if uuid in offered),
        )

    def _engine(self) -> tuple[bool, EngineFacts | None]:
        if self._runtime is None:
            return False, None
        if not self._runtime.available():
            return True, None
        try:
            return False, self._runtime.facts()
        except EngineUnavailable:
            return True, None

    def _runtime_look(self, engine_down: bool) -> tuple[str, ...]:
        """What the runtime itself says against new jobs; what it said last while the engine does not answer."""
        if self._runtime is None or engine_down:
            return self._runtime_degraded
        try:
            return self._runtime.degraded()
        except EngineUnavailable:
            return self._runtime_degraded

    def _disk_is_low(self) -> bool:
        disk = disk_read(self._settings.state)
        return disk is not None and disk.free < disk.reserve
