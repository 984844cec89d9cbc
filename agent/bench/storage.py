"""The speed of the machine's storage, measured by fio past every cache, beside the agent's own state."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from agent.bench.base import BenchmarkRefused, Cancelled
from agent.bench.suite import HostFigures
from agent_protocol.messages import BenchmarkPlan

GIB = 1024**3
FILE_BYTES = 4 * GIB
"""Direct I/O passes the machine's cache; so much outlasts most caches inside of drives. Never above 16 GiB."""
SPARE_BYTES = 10 * GIB
"""What must stay free on the disk while we measure: jobs of other cards are running."""
SECONDS = 10
RANDOM_SECONDS = 5
_FILE = "benchmark-storage"
_PATIENCE_S = 120
_LOOK_EVERY_S = 0.25
_READ, _WRITE = "storage_read_mbps", "storage_write_mbps"


class StorageMeasure:
    """Sequential in blocks of 1 MiB, and random in blocks of 4 KiB; the file is written first, so reads find data."""

    def __init__(self, folder: Path, *, file_bytes: int = FILE_BYTES, spare_bytes: int = SPARE_BYTES) -> None:
        self._folder = folder
        self._file_bytes = file_bytes
        self._spare_bytes = spare_bytes

    def measure(self, plan: BenchmarkPlan, cancelled: Cancelled) -> HostFigures:
        found = HostFigures()
        reason = self._obstacle()
        if reason is None:
            reason = self._measure_all(found, cancelled)
        if reason is not None:
            for name in (_READ, _WRITE):
                if name not in found.metrics:
                    found.unmeasured[name] = reason
        return found

    def _obstacle(self) -> str | None:
        if shutil.which("fio") is None:
            return "fio_missing"
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError:
            return "no_folder"
        return "disk_low" if free < self._file_bytes + self._spare_bytes else None

    def _measure_all(self, found: HostFigures, cancelled: Cancelled) -> str | None:
        """Fills in what can be measured; the reason why the rest could not."""
        file = self._folder / _FILE
        try:
            for name, mode, block, seconds in (
                (_WRITE, "write", "1M", SECONDS),
                (_READ, "read", "1M", SECONDS),
                ("storage_random_read_iops", "randread", "4k", RANDOM_SECONDS),
                ("storage_random_write_iops", "randwrite", "4k", RANDOM_SECONDS),
            ):
                report = self._fio(file, mode, block, seconds, cancelled)
                if report is None:
                    return "fio_failed"
                part = report["write" if mode.endswith("write") else "read"]
                if block == "1M":
                    found.metrics[name] = float(part["bw_bytes"]) / 1e6
                else:
                    found.details[name] = float(part["iops"])
        except (LookupError, ValueError, TypeError):
            return "fio_failed"
        finally:
            file.unlink(missing_ok=True)
        return None

    def _fio(self, file: Path, mode: str, block: str, seconds: int, cancelled: Cancelled) -> dict[str, Any] | None:
        """fio's report on its only job; null when it fails, as it does where direct I/O is not possible."""
        command = ["fio", "--name=gpunex", f"--filename={file}", f"--size={self._file_bytes}", f"--rw={mode}"]
        command += [f"--bs={block}", "--direct=1", "--ioengine=libaio", "--iodepth=16", f"--runtime={seconds}"]
        command += ["--randrepeat=0", "--refill_buffers", "--output-format=json"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self._folder
        )
        with process:
            waited = 0.0
            while True:
                try:
                    output, _ = process.communicate(timeout=_LOOK_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    waited += _LOOK_EVERY_S
                try:
                    over = cancelled(0)
                except BenchmarkRefused:
                    process.kill()
                    raise
                if over or waited > _PATIENCE_S:
                    process.kill()
                    if over:
                        raise BenchmarkRefused("interrupted")
                    return None
        if process.returncode != 0:
            return None
        # Notes of fio's may stand before the report.
        report: dict[str, Any] = json.loads(output[output.index(b"{") :])["jobs"][0]
        return report
