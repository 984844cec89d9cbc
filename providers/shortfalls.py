"""How far a machine may stay behind what its owner declared before a reviewer is told, pure.

Drivers and firmware take some memory, and a network has worse hours: a little less is normal and flags nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

MEMORY_PERCENT = 90
NETWORK_PERCENT = 50
GIB = 1024**3

SENTENCES: dict[str, str | Promise] = {
    "memory": _("less than nine tenths of the declared memory"),
    "download": _("less than half of the declared download speed"),
    "upload": _("less than half of the declared upload speed"),
}


@dataclass(frozen=True)
class Declared:
    """One approved group: memory per host in GB, speeds in Mbit/s; null is "not given"."""

    memory_gb: int | None
    download_mbps: int | None
    upload_mbps: int | None


@dataclass(frozen=True)
class Found:
    """What the machine has: bytes and Mbit/s; null is "not known yet" and never a shortfall."""

    memory_bytes: int | None
    download_mbps: int | None
    upload_mbps: int | None


def shortfalls(declared: Iterable[Declared], found: Found) -> list[str]:
    """Codes of SENTENCES. Where several groups fit the machine, the most modest one counts."""
    groups = list(declared)
    memory = _least(group.memory_gb for group in groups)
    return [
        code
        for code, wanted, has, percent in (
            ("memory", None if memory is None else memory * GIB, found.memory_bytes, MEMORY_PERCENT),
            ("download", _least(group.download_mbps for group in groups), found.download_mbps, NETWORK_PERCENT),
            ("upload", _least(group.upload_mbps for group in groups), found.upload_mbps, NETWORK_PERCENT),
        )
        if wanted is not None and has is not None and has * 100 < wanted * percent
    ]


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
