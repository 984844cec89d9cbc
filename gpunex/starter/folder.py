"""The data folder: ours or empty, one starter at a time, secrets for the owner's eyes only. Standard library only."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from gpunex.embedded import reachable, secret_file

ROOT = Path(__file__).resolve().parent.parent.parent
LAYOUT = 1
"""What lies where in a data folder. A start refuses any other number: nothing is guessed about somebody's data."""
MARKER = "gpunex.json"
STOPPED = "stopped.json"
"""Written when a stop begins: the jobs that ran on the demo's hosts end with it, by the platform's doing."""
FOLDER_MODE = 0o711
"""PostgreSQL runs as an unprivileged user below it: others may pass through, and see nothing."""


class StartError(Exception):
    """One clear sentence about why this start is refused."""


def default_folder() -> Path:
    """``var`` in the checkout; for root, where PostgreSQL's user cannot get there, ``/var/lib/gpunex``."""
    folder = ROOT / "var"
    if os.geteuid() == 0 and not reachable(folder / "x" if folder.exists() else folder):
        return Path("/var/lib/gpunex")
    return folder


def folder_chosen(given: Path | None) -> Path:
    """The folder of ``--data``, relative to where the script was called; without it the default."""
    return Path(os.environ.get("GPUNEX_CALLER", ".")) / given if given is not None else default_folder()


class DataFolder:
    """Opened for one start: made if absent, refused if it is not ours, locked until the process ends."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._lock: int | None = None

    def open(self, *, demo: bool) -> None:
        """Raises StartError: it cannot be used, it is somebody else's, another layout, another mode, or in use."""
        try:
            self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            fresh = not (self.path / MARKER).exists()
            if fresh:
                self._must_be_empty()
            self._lock_take()
            self.path.chmod(FOLDER_MODE)
        except OSError as error:
            raise StartError(f"The data folder {self.path} cannot be used: {error.strerror}.") from None
        if fresh:
            self.write(MARKER, {"product": "gpunex", "layout": LAYOUT, "demo": demo})
        self._check_marker(demo)

    def _must_be_empty(self) -> None:
        others = sorted(entry.name for entry in self.path.iterdir() if entry.name != "lock")
        if others:
            raise StartError(
                f"{self.path} is not a data folder of GPUnex (it has no {MARKER}, but {others[0]}): "
                "choose an empty or new folder with --data."
            )

    def _lock_take(self) -> None:
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._lock, 20).decode().strip() or "unknown"
            raise StartError(
                f"Another bin/start (process {owner}) is running on {self.path}: stop it or choose another --data."
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def _check_marker(self, demo: bool) -> None:
        found = self.read(MARKER)
        if found.get("product") != "gpunex" or not isinstance(found.get("layout"), int):
            raise StartError(f"{self.path / MARKER} is damaged: restore the folder or choose another with --data.")
        if found["layout"] != LAYOUT:
            raise StartError(
                f"{self.path} has layout {found['layout']}, this version needs {LAYOUT}: choose another --data."
            )
        if found.get("demo") is not demo:
            kind, way = ("a demo", "without") if found.get("demo") else ("an empty start (--no-demo)", "with")
            raise StartError(f"{self.path} belongs to {kind}: start {way} --no-demo, or choose another --data.")

    def sub(self, name: str, mode: int = 0o700) -> Path:
        """A folder below, made with ``mode`` at first use."""
        folder = self.path / name
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        folder.chmod(mode)
        return folder

    def secret(self, name: str) -> str:
        return secret_file(self.sub("secrets") / name)

    def write(self, name: str, value: dict[str, Any]) -> None:
        """A JSON file that only the owner may read, replaced in one step."""
        unfinished = self.path / f"{name}.new"
        unfinished.unlink(missing_ok=True)
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
            json.dump(value, handle, indent=2)
        unfinished.rename(self.path / name)

    def read(self, name: str) -> dict[str, Any]:
        """The JSON object in a file; empty when it is missing. Raises StartError when it is damaged."""
        try:
            value = json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            value = None
        if not isinstance(value, dict):
            raise StartError(f"{self.path / name} is damaged: restore the folder or choose another with --data.")
        return value
