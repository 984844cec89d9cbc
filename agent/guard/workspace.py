"""Hands a job's volume to the job's user, which only the engine can do.

An engine that mounts a new volume over a folder of an image gives it that folder's owner. So the guard keeps an image
that holds nothing but this folder, and creates (never starts) a container of it over the new volume. This is the guard's
own doing, from its own bytes: nobody else may import an image.
"""

import io
import logging
import tarfile
import threading

from agent.confinement import GUARD_MARK, LABEL_GUARD, UNPRIVILEGED_USER, WORKSPACE
from agent.guard.engine import Answer, Engine
from agent.guard.errors import GuardError

# Under a name that no registry can have, so that no pull can ever put something else there.
IMAGE, TAG = "gpunex.invalid/workspace", "1"
_SUFFIX = "-workspace"

log = logging.getLogger("guard.workspace")


class WorkspaceFailed(GuardError):
    """The engine did not let us; its own words are passed on."""

    def __init__(self, answer: Answer) -> None:
        text = answer.body.decode("utf-8", "replace")[:500]
        super().__init__(f"guard: the workspace could not be prepared: {text}")
        self.status = answer.status if answer.status >= 500 else 500


class Workspaces:
    """One at a time: two helpers of one name would be in each other's way."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()

    def own(self, prefix: str, volume: str) -> None:
        """May be repeated: a volume that holds something keeps its owner. Raises GuardError."""
        with self._lock:
            if self._engine.call("GET", f"{prefix}/images/{IMAGE}:{TAG}/json").status == 404:
                query = {"fromSrc": "-", "repo": IMAGE, "tag": TAG}
                self._good(self._engine.call("POST", f"{prefix}/images/create", query=query, raw=workspace_image()))
            self.helper_remove(prefix, volume)
            try:
                query = {"name": f"{volume}{_SUFFIX}"}
                created = self._engine.call(
                    "POST", f"{prefix}/containers/create", query=query, body=helper_body(volume)
                )
                self._good(created)
            finally:
                self.helper_remove(prefix, volume)

    def helper_remove(self, prefix: str, volume: str) -> None:
        """Also what a guard that was killed half-way left behind: it would keep the volume from being removed."""
        answer = self._engine.call("GET", f"{prefix}/containers/{volume}{_SUFFIX}/json")
        if not answer.good:
            return
        found = answer.json()
        if found["Config"]["Labels"].get(LABEL_GUARD) == GUARD_MARK:
            self._engine.call("DELETE", f"{prefix}/containers/{found['Id']}", query={"force": "1"})

    @staticmethod
    def _good(answer: Answer) -> None:
        if not answer.good:
            raise WorkspaceFailed(answer)


def helper_body(volume: str) -> dict[str, object]:
    """A container that is never started, and could do nothing if it were."""
    return {
        "Image": f"{IMAGE}:{TAG}",
        "Cmd": ["never-started"],
        "User": UNPRIVILEGED_USER,
        "Labels": {LABEL_GUARD: GUARD_MARK},
        "HostConfig": {
            "Binds": [f"{volume}:{WORKSPACE}"],
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
        },
    }


def workspace_image() -> bytes:
    """A root file system with the workspace folder alone, owned by the job's user; a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(WORKSPACE.lstrip("/"))
        entry.type = tarfile.DIRTYPE
        entry.mode = 0o700
        entry.uid = entry.gid = int(UNPRIVILEGED_USER.partition(":")[0])
        archive.addfile(entry)
    return buffer.getvalue()
