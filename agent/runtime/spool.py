"""A job's output as read from the engine, kept in a file of our own until the platform has it."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from agent.runtime.base import LOG_CUT_MARK, EngineUnavailable, LogSlice

log = logging.getLogger("agent.spool")


class LogSpool:
    """One follower thread per running job copies the engine's stream into `<name>.log`.

    The engine's log is replayed from its beginning after every break (our restart, the engine's); as many bytes as are
    spooled already are skipped, so nothing is lost or doubled. The limit is enforced here, with a mark.
    """

    def __init__(self, folder: Path, stream: Callable[[str], Iterator[bytes]]) -> None:
        """`stream(name)`: the whole log from its first byte, following until the job has ended."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._stream = stream
        self._followers: dict[str, threading.Thread] = {}
        self._complete: set[str] = set()
        self._lock = threading.Lock()

    def follow(self, name: str, limit: int) -> None:
        """Make sure that a follower runs."""
        with self._lock:
            follower = self._followers.get(name)
            if follower is not None and follower.is_alive():
                return
            follower = threading.Thread(target=self._copy, args=(name, limit), name=f"log-{name}", daemon=True)
            self._followers[name] = follower
            follower.start()

    def drain(self, name: str, limit: int, timeout_s: float) -> None:
        """After the job's end: read what the engine still has, then call the log complete.

        The end of a stream proves nothing by itself (an engine that restarts ends it too), so it is read once more.
        """
        with self._lock:
            follower = self._followers.get(name)
        if follower is not None:
            follower.join(timeout_s)
        if follower is None or not follower.is_alive():
            self._copy(name, limit)
        self.finish(name)

    def finish(self, name: str) -> None:
        """Nothing will be added any more."""
        with self._lock:
            self._complete.add(name)
            self._followers.pop(name, None)
        (self._folder / f"{name}.done").touch()

    def read(self, name: str, offset: int, limit: int) -> LogSlice:
        complete = name in self._complete or (self._folder / f"{name}.done").exists()
        try:
            with open(self._path(name), "rb") as spool:
                spool.seek(offset)
                content = spool.read(limit)
                at_end = len(content) < limit
        except FileNotFoundError:
            content, at_end = b"", True
        return LogSlice(content=content, complete=complete and at_end)

    def remove(self, name: str) -> None:
        with self._lock:
            self._complete.discard(name)
            self._followers.pop(name, None)
        self._path(name).unlink(missing_ok=True)
        (self._folder / f"{name}.done").unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _copy(self, name: str, limit: int) -> None:
        """Append what lies beyond the bytes that we have. Whatever breaks the stream only ends this copy."""
        try:
            with open(self._path(name), "ab", buffering=0) as spool:
                have = spool.tell()
                if have >= limit + len(LOG_CUT_MARK):
                    return
                position = 0
                for block in self._stream(name):
                    fresh = block[max(0, have - position) :]
                    position += len(block)
                    if position <= have:
                        continue
                    room = fresh[: max(0, limit - spool.tell())]
                    spool.write(room)
                    if len(room) < len(fresh):
                        spool.write(LOG_CUT_MARK)
                        return
        except (EngineUnavailable, OSError) as error:
            log.info("the log stream broke", extra={"job": name, "kind": type(error).__name__})
