"""Free space where the engine keeps its data.

The agent sees no file of the host's. Its state folder is a volume of the engine's, so it lies on the same file system as
images do, unless the owner has mounted one of the two elsewhere.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

# An engine that cannot unpack an image any more fails every job; small hosts keep at least a twentieth.
DISK_LOW_BYTES = 5 * 2**30
DISK_LOW_SHARE = 0.05


@dataclass(frozen=True)
class Disk:
    """Bytes of one file system."""

    total: int
    free: int

    @property
    def reserve(self) -> int:
        """With less than this free the host is degraded."""
        return int(min(DISK_LOW_BYTES, self.total * DISK_LOW_SHARE))


def disk_read(folder: Path) -> Disk | None:
    """The file system of this folder; null when it cannot be read."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return Disk(usage.total, usage.free)
