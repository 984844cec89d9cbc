"""What the kernel side of the NVIDIA driver says, to hold against what the library says: its list of cards, and its log.

A container sees /proc/driver/nvidia (perhaps with some cards only) and as a rule no /dev/kmsg; then the library's word is
all there is. Formats: NVIDIA's driver README, "NVRM: Xid (PCI:<domain>:<bus>:<device>): <number>, …"; Linux
Documentation/ABI/testing/dev-kmsg.
"""

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

DRIVER_FOLDER = Path("/proc/driver/nvidia")
KERNEL_LOG = Path("/dev/kmsg")
_MAX_RECORD = 8192
# More records than a look can meaningfully take; the next look goes on where this one ended.
_MAX_RECORDS = 10_000

_BUS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?", re.IGNORECASE)
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d{1,5})\b")
_VERSION = re.compile(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s")


def bus_key(text: str | None) -> str | None:
    """One spelling of a PCI address, without its function: NVML says 00000000:9B:00.0, the kernel 0000:9b:00."""
    found = _BUS.fullmatch((text or "").strip())
    return None if found is None else f"{int(found[1], 16):x}:{found[2].lower()}:{found[3].lower()}"


def xid_read(line: str) -> tuple[str, int] | None:
    """(bus key, Xid) of a line of the kernel's log; null for every other line."""
    found = _XID.search(line)
    bus = None if found is None else bus_key(found[1])
    return None if found is None or bus is None else (bus, int(found[2]))


@dataclass(frozen=True)
class KernelView:
    """`buses` and `version` are null where the driver's folder cannot be read."""

    buses: frozenset[str] | None
    version: str | None


def kernel_view(folder: Path) -> KernelView:
    """Cards and version of the driver that is loaded."""
    try:
        buses = frozenset(key for each in (folder / "gpus").iterdir() if (key := bus_key(each.name)) is not None)
    except OSError:
        return KernelView(None, None)
    try:
        found = _VERSION.search((folder / "version").read_text())
    except OSError:
        found = None
    return KernelView(buses, None if found is None else found[1])


class KernelLog:
    """New records of the kernel's log. Where it cannot be read there are none."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path = KERNEL_LOG) -> "KernelLog":
        """From now on: what is in the log already was there before us."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(descriptor, 0, os.SEEK_END)
        except OSError:
            return cls(None)
        return cls(descriptor)

    def xids(self) -> list[tuple[str, int]]:
        """(bus key, Xid) of each event since the call before."""
        found = []
        for _ in range(_MAX_RECORDS):
            record = self._record()
            if record is None:
                break
            event = xid_read(record)
            if event is not None:
                found.append(event)
        return found

    def _record(self) -> str | None:
        """One record per read; a record that was overwritten meanwhile is an EPIPE, and the next one follows."""
        if self._descriptor is None:
            return None
        try:
            return os.read(self._descriptor, _MAX_RECORD).decode("utf-8", "replace") or None
        except OSError as error:
            return "" if error.errno == errno.EPIPE else None

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
