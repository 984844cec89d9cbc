"""Images that jobs have brought to this machine, and making room by removing those that nobody uses.

Only an image that was not here before a job's pull is ever removed: by its digest, without force. The engine keeps what a
container uses, the guard what bears a tag, for tags are the owner's (jobs' images are pulled by digest and bear none).
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import requests
from docker.errors import APIError, DockerException, NotFound

from agent.disk import Disk
from agent.runtime.base import EngineUnavailable, JobOrder, RuntimeRefused

# What an image is expected to need whose size nobody knows: registries tell the sizes of packed layers only. Hardly one with
# CUDA needs less. A larger one for which there is no room is refused by the engine, for the same reason.
UNKNOWN_IMAGE_BYTES = 5 * 10**9
# While an image is unpacked its packed layers, about half as large, are there too.
UNPACKING_SHARE = 1.5
# Customers come back within days, if they do; a pull later costs minutes, a full disk costs the machine its jobs.
KEPT_S = 14 * 86_400
KEPT_BYTES = 100 * 10**9
# Beyond the reserve, so that two unknown images may come at once; of a small disk a tenth.
KEPT_FREE_BYTES = 2 * UNKNOWN_IMAGE_BYTES
KEPT_FREE_SHARE = 0.1
# Sizes of this many images that are gone are remembered, for when they come again.
SIZES_REMEMBERED = 256

log = logging.getLogger("agent.images")


@dataclass
class BroughtImage:
    """`here`: a job has brought it, and it has not been removed since. `size`: bytes unpacked, null until it has been pulled.
    `used_at`: seconds since 1970."""

    here: bool
    used_at: float
    size: int | None = None

    @property
    def needed(self) -> int:
        return UNKNOWN_IMAGE_BYTES if self.size is None else int(self.size * UNPACKING_SHARE)


class ImageCache:
    """All methods may be called from any thread; those that remove raise EngineUnavailable. Images are named
    registry/repository@digest."""

    def __init__(self, api: Any, path: Path, disk: Callable[[], Disk | None]) -> None:
        """`path`: where it is remembered what jobs have brought."""
        self._api, self._path, self._disk = api, path, disk
        self._lock = threading.RLock()
        self._held: dict[str, str] = {}
        self._images = _read(path)

    def hold(self, order: JobOrder, image: str) -> None:
        """From now on until `let_go` it is not removed. What is the product's own stays for good, whoever brought it."""
        with self._lock:
            if order.own_image:
                self._images.pop(image, None)
            else:
                self._held[order.name] = image
                if image in self._images:
                    self._images[image].used_at = time.time()
            self._write()

    def let_go(self, name: str) -> None:
        """The job of this name needs its image no more."""
        with self._lock:
            image = self._held.pop(name, None)
            if image in self._images:
                self._images[image].used_at = time.time()
                self._write()

    def expect(self, order: JobOrder, image: str) -> None:
        """It is not here and will be pulled: make room, and write down that it came for a job, before it comes.

        Raises RuntimeRefused when there is too little space whatever is removed.
        """
        with self._lock:
            known = self._images.get(image) or BroughtImage(here=False, used_at=0.0)
            if not self._room(known.needed):
                raise RuntimeRefused("host_disk_full", "pull")
            if not order.own_image:
                self._images[image] = BroughtImage(here=True, used_at=time.time(), size=known.size)
                self._write()

    def arrived(self, image: str, size: object) -> None:
        with self._lock:
            if image in self._images and isinstance(size, int) and size > 0:
                self._images[image].size = size
                self._write()

    def tidy(self) -> None:
        """Remove what no job has used for long, and the oldest while there are too many or the disk fills."""
        with self._lock:
            for image, known in self._oldest_first():
                if time.time() - known.used_at > KEPT_S or self._bytes() > KEPT_BYTES:
                    self._remove(image)
            disk = self._disk()
            if disk is not None:
                self._room(int(min(KEPT_FREE_BYTES, disk.total * KEPT_FREE_SHARE)))

    def _room(self, needed: int) -> bool:
        """Whether this much is free above the reserve, perhaps after removing; what cannot be read is taken for enough."""
        waiting = [image for image, _ in self._oldest_first()]
        while True:
            disk = self._disk()
            if disk is None or disk.free >= disk.reserve + needed:
                return True
            if not waiting:
                return False
            self._remove(waiting.pop(0))

    def _oldest_first(self) -> list[tuple[str, BroughtImage]]:
        held = set(self._held.values())
        free = [(image, known) for image, known in self._images.items() if known.here and image not in held]
        return sorted(free, key=lambda each: each[1].used_at)

    def _bytes(self) -> int:
        return sum(known.size or 0 for known in self._images.values() if known.here)

    def _remove(self, image: str) -> None:
        try:
            self._api.remove_image(image, force=False, noprune=True)
        except NotFound:
            log.debug("an image had gone already", extra={"image": image})
        except APIError as error:
            self._stays(image, error)
            return
        except (requests.RequestException, DockerException) as error:
            raise EngineUnavailable(type(error).__name__) from None
        log.info("an image was removed", extra={"image": image})
        self._images[image].here = False
        self._write()

    def _stays(self, image: str, error: APIError) -> None:
        """409: a container uses it. 403: the owner has given it a tag, so it is his now."""
        if error.status_code == 403:
            del self._images[image]
            self._write()
        elif error.status_code != 409:
            raise EngineUnavailable(str(error.status_code)) from None

    def _write(self) -> None:
        """Whole or not at all, also after a power cut."""
        gone = sorted((known.used_at, image) for image, known in self._images.items() if not known.here)
        for _, image in gone[: max(0, len(gone) - SIZES_REMEMBERED)]:
            del self._images[image]
        partial = self._path.with_suffix(".partial")
        with open(partial, "w", encoding="utf-8", opener=_private) as file:
            json.dump({image: asdict(known) for image, known in self._images.items()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self._path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(path: Path) -> dict[str, BroughtImage]:
    """What cannot be read is as if no job had brought anything: it is never removed."""
    try:
        return {image: BroughtImage(**known) for image, known in json.loads(path.read_text("utf-8")).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning(
            "the list of images cannot be read; none of them will be removed", extra={"kind": type(error).__name__}
        )
        return {}
