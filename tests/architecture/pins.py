"""``python -m tests.architecture.pins``: every requirement is pinned by version and hash (pip refuses others later)."""

from __future__ import annotations

import re
import sys

from tests.architecture.layers import ROOT

FILES = (
    "requirements.txt",
    "requirements-tools.txt",
    "requirements-start.txt",
    "requirements-dev.txt",
    "requirements-torch.txt",
    "agent/requirements.txt",
)


def unpinned(text: str) -> list[str]:
    """The names of requirements without ``==version`` or without a hash."""
    logical = text.replace("\\\n", " ").splitlines()
    requirements = [line for line in logical if line.strip() and not line.lstrip().startswith("#")]
    pinned = re.compile(r"[A-Za-z0-9_.\[\],-]+==\S+.*--hash=sha256:[0-9a-f]{64}")
    return [line.split()[0] for line in requirements if not pinned.match(line.strip())]


if __name__ == "__main__":
    found = {name: unpinned((ROOT / name).read_text()) for name in FILES}
    for name, lines in found.items():
        if lines:
            print(f"{name}: {', '.join(lines)}")
    sys.exit(any(found.values()))
