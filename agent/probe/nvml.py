"""GPUs as NVIDIA's management library sees them, read by a child process with a deadline."""

import json
import logging
import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.clock import boot_seconds
from agent.probe.base import ProbeReading
from agent.probe.kernel import DRIVER_FOLDER, KernelLog, bus_key, kernel_view
from agent_protocol.errors import ProtocolError
from agent_protocol.messages import Gpu, GpuTelemetry

# A healthy driver answers in milliseconds, a waking one (no persistence mode) in a few seconds per card.
DEADLINE_S = 15.0
_MAX_ANSWER = 1024 * 1024
# NVML and the kernel's log tell of the same Xid within a look or two of each other.
SAME_XID_S = 30.0

log = logging.getLogger("agent.probe")


class NvmlProbe:
    """A child that hangs is killed and replaced; one that cannot even be killed (stuck in the driver) blocks new ones,
    so that a broken driver does not fill the host with stuck processes."""

    simulated = False

    def __init__(
        self,
        deadline_s: float = DEADLINE_S,
        *,
        driver_folder: Path = DRIVER_FOLDER,
        kernel_log: KernelLog | None = None,
    ) -> None:
        self._deadline_s = deadline_s
        self._driver_folder = driver_folder
        self._kernel_log = KernelLog.open() if kernel_log is None else kernel_log
        # (GPU UUID, Xid) to when and by whom it was told last.
        self._told: dict[tuple[str, int], tuple[float, str]] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._stuck: subprocess.Popen[bytes] | None = None
        # Cards that were there before: one that vanishes has fallen off the bus, it was not unscrewed.
        self._known: dict[str, Gpu] = {}
        self._driver_version: str | None = None
        self._cuda_version: str | None = None

    def read(self) -> ProbeReading:
        answer = self._ask()
        error = answer.get("error")
        if error is not None:
            return self._blind(str(error))
        gpus, telemetry = [], []
        for entry in answer["gpus"]:
            reading = entry.pop("telemetry")
            try:
                gpus.append(Gpu.parse(entry))
                telemetry.append(GpuTelemetry.parse(reading))
            except ProtocolError as refused:
                log.warning("a card says what cannot be", extra={"field": refused.field})
                gpus.append(Gpu(uuid=entry["uuid"], health="error", reasons={}))
        self._driver_version, self._cuda_version = answer["driver_version"], answer["cuda_version"]
        degraded = self._disagreement(gpus)
        seen, slots = {gpu.uuid for gpu in gpus}, {bus_key(gpu.pci_bus_id) for gpu in gpus}
        # Where another card sits in its slot it was taken out; that is nothing for the driver to be blamed for.
        gone = [known for uuid, known in self._known.items() if uuid not in seen]
        gpus += [_lost(known) for known in gone if known.pci_bus_id is None or bus_key(known.pci_bus_id) not in slots]
        self._known = {gpu.uuid: _complete(gpu, self._known.get(gpu.uuid)) for gpu in gpus}
        return ProbeReading(
            gpus=tuple(self._known.values()),
            telemetry=tuple(telemetry),
            driver_version=self._driver_version,
            cuda_version=self._cuda_version,
            degraded=degraded,
            xids=self._xids([(uuid, xid) for uuid, xid in answer["xids"]]),
        )

    def busy(self, uuids: frozenset[str]) -> None:
        """The driver knows better than we do."""

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._drop()
        self._kernel_log.close()

    def _blind(self, error: str) -> ProbeReading:
        """Nothing can be said about any card now; what they are is still what they were."""
        unknown = tuple(replace(gpu, health="unknown") for gpu in self._known.values())
        return ProbeReading(
            gpus=unknown,
            driver_version=self._driver_version,
            cuda_version=self._cuda_version,
            degraded=(error,),
            # A driver that hangs often says why in the kernel's log.
            xids=self._xids([]),
        )

    def _disagreement(self, gpus: list[Gpu]) -> tuple[str, ...]:
        """A card or a version that only the library knows cannot be. The other way round a container simply sees less."""
        kernel = kernel_view(self._driver_folder)
        if kernel.buses is None:
            return ()
        unknown = [
            gpu.uuid for gpu in gpus if gpu.pci_bus_id is not None and bus_key(gpu.pci_bus_id) not in kernel.buses
        ]
        same_version = None in (kernel.version, self._driver_version) or kernel.version == self._driver_version
        if same_version and not unknown:
            return ()
        log.warning(
            "driver and library disagree",
            extra={"gpus": unknown, "driver": kernel.version, "library": self._driver_version},
        )
        return ("driver_disagrees",)

    def _xids(self, told: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        """NVML's events and those that only the kernel's log has; one that both tell of counts once."""
        by_bus = {bus_key(gpu.pci_bus_id): gpu.uuid for gpu in self._known.values()}
        logged = [(by_bus[bus], xid) for bus, xid in self._kernel_log.xids() if bus in by_bus]
        now, fresh = boot_seconds(), []
        for source, events in (("library", told), ("log", logged)):
            for event in events:
                at, before = self._told.get(event, (float("-inf"), source))
                if before != source and now - at < SAME_XID_S:
                    continue
                self._told[event] = (now, source)
                fresh.append(event)
        return tuple(fresh)

    def _ask(self) -> dict[str, Any]:
        if self._stuck is not None:
            if self._stuck.poll() is None:
                return {"error": "nvml_timeout"}
            self._stuck = None
        child = self._child or self._start()
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(b"look\n")
            child.stdin.flush()
            line = _line_read(child.stdout.fileno(), self._deadline_s)
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        if line is None:
            log.warning("the driver does not answer", extra={"deadline_s": self._deadline_s})
            child.kill()
            self._drop()
            return {"error": "nvml_timeout"}
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            # It died: a crash inside the driver's library takes the child, not the agent.
            child.kill()
            self._drop()
            return {"error": "nvml_failed"}
        return answer

    def _start(self) -> "subprocess.Popen[bytes]":
        self._child = subprocess.Popen(
            [sys.executable, "-m", "agent.probe.nvml_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).resolve().parents[2],
        )
        return self._child

    def _drop(self) -> None:
        """Wait briefly for a killed child; if it stays, it is stuck inside the driver."""
        child, self._child = self._child, None
        assert child is not None
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                _quietly_closed(pipe)
        try:
            child.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._stuck = child


def _quietly_closed(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return


def _line_read(descriptor: int, deadline_s: float) -> bytes | None:
    """One line; null when the deadline passes, an empty or broken line when the other side is gone."""
    deadline = boot_seconds() + deadline_s
    line = b""
    while not line.endswith(b"\n") and len(line) < _MAX_ANSWER:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - boot_seconds()))
        if not ready:
            return None
        block = os.read(descriptor, 65_536)
        if not block:
            break
        line += block
    return line


def _lost(gpu: Gpu) -> Gpu:
    return replace(gpu, health="lost")


def _complete(gpu: Gpu, known: Gpu | None) -> Gpu:
    """A lost card keeps the description it had; its health and reasons are today's."""
    if gpu.health != "lost" or known is None:
        return gpu
    return replace(known, health="lost", reasons=gpu.reasons)
