"""Images: pulled with the customer's login or none, and named by digest."""

import json
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import requests
import urllib3
from docker.auth import encode_header
from docker.errors import DockerException, NotFound

from agent.runtime.base import EngineUnavailable, JobOrder, RuntimeRefused
from agent.runtime.docker_answers import GUARD_AWAY
from agent.runtime.docker_errors import called, pull_refused
from agent.runtime.image_cache import ImageCache
from agent_protocol.images import ImageReference, ImageRefused, image_parse
from agent_protocol.logins import login_address
from agent_protocol.messages import RegistryLogin

# An engine tells of a pull several times a second, but checks the sum of a large layer in silence. It waits for a registry that
# has taken the connection and says nothing for as long as that lasts.
PULL_SILENCE_S = 300.0
_CONNECT_S = 60.0
_LOOK_S = 0.5


def image_present(api: Any, image: str) -> bool:
    """Whether the engine has this image, by its whole name. Raises EngineUnavailable."""
    try:
        api.inspect_image(image)
    except NotFound:
        return False
    except (requests.RequestException, DockerException) as error:
        raise EngineUnavailable(type(error).__name__) from None
    return True


def image_pull(
    api: Any, order: JobOrder, registries: frozenset[str], images: ImageCache, cancelled: Callable[[], bool]
) -> str:
    """Ask the registry which digest is meant, and pull that unless it is here: what runs is what was asked for, whatever the
    tag says a minute later, and the image bears no tag that could be taken for the owner's.

    The registry is asked each time, also for what is here already: an image that one customer's login has brought is not
    another's to start. Raises RuntimeRefused, EngineUnavailable; stops early when cancelled.
    """
    try:
        reference = image_parse(order.plan.image, allowed_registries=registries)
    except ImageRefused as refused:
        raise RuntimeRefused("image_missing", refused.code) from None
    headers = _headers(order.login, reference)
    image = reference.pull_reference
    if reference.digest is None or image_present(api, image):
        # For a digest that it has, an engine asks no registry when it is told to pull (20.10 does not).
        path = f"/distribution/{image.replace('@', '%40')}/json"
        said = _told(_Question(api, reference, headers, "GET", path, {}), cancelled)
        if said is None:
            return image
        image = f"{reference.name}@{reference.digest or _digest_of(said)}"
    images.hold(order, image)
    if not image_present(api, image):
        images.expect(order, image)
        query = {"fromImage": reference.name, "tag": image.partition("@")[2]}
        if _told(_Question(api, reference, headers, "POST", "/images/create", query), cancelled) is None:
            return image
        _arrived(api, image, images)
    return image


def _digest_of(said: dict[str, Any]) -> str:
    digest = (said.get("Descriptor") or {}).get("digest")
    if not isinstance(digest, str):
        raise RuntimeRefused("image_missing", "no_digest")
    return digest


def _arrived(api: Any, image: str, images: ImageCache) -> None:
    try:
        images.arrived(image, called(api.inspect_image, image).get("Size"))
    except EngineUnavailable:
        if not image_present(api, image):
            raise RuntimeRefused("image_missing", "no_digest") from None
        raise


def _told(question: "_Question", cancelled: Callable[[], bool]) -> dict[str, Any] | None:
    """The last that the engine said; null when called off."""
    question.start()
    try:
        while not cancelled():
            try:
                told = question.told.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if isinstance(told, Exception):
                raise told
            return None if cancelled() else told
    finally:
        question.given_up.set()
    return None


def _headers(login: RegistryLogin | None, reference: ImageReference) -> dict[str, str]:
    """For this pull alone. (The library's own `pull` would send the logins of whoever's home it finds itself in: a customer
    would pull in the provider's name.)"""
    if login is None:
        return {}
    if login.registry != reference.registry:
        raise RuntimeRefused("image_unauthorized", "login_elsewhere")
    address = login_address(reference.registry)
    config = {"username": login.username, "password": login.password, "serveraddress": address}
    return {"X-Registry-Auth": encode_header(config).decode("ascii")}


class _Question(threading.Thread):
    """Reads what the engine tells, so that who waits can be called off while it tells nothing.

    `told` gets one thing: what it said last, else why it failed. Once `given_up` is set the connection is closed
    with the next word, or after the silence; the engine then ends the pull.
    """

    def __init__(
        self,
        api: Any,
        reference: ImageReference,
        headers: dict[str, str],
        method: str,
        path: str,
        query: dict[str, str],
    ) -> None:
        super().__init__(name=f"pull-{reference.repository}", daemon=True)
        self.told: queue.SimpleQueue[Exception | dict[str, Any]] = queue.SimpleQueue()
        self.given_up = threading.Event()
        self._api, self._reference, self._headers = api, reference, headers
        self._method, self._path, self._query = method, path, query
        self._silence_s = PULL_SILENCE_S

    def run(self) -> None:
        last: dict[str, Any] = {}
        try:
            for last in self._lines():
                if self.given_up.is_set():
                    return
                if "error" in last:
                    raise pull_refused(str(last["error"]), repository=self._reference.repository)
            self.told.put(last)
        except (RuntimeRefused, EngineUnavailable) as error:
            self.told.put(error)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            self.told.put(self._failure(error))

    def _lines(self) -> Iterator[dict[str, Any]]:
        url = f"{self._api.base_url}/v{self._api.api_version}{self._path}"
        options = {"headers": self._headers, "stream": True, "timeout": (_CONNECT_S, self._silence_s)}
        with self._api.request(self._method, url, params=self._query, **options) as response:
            if response.status_code in GUARD_AWAY:
                raise EngineUnavailable(str(response.status_code))
            if response.status_code >= 400:
                said = str(json.loads(response.content).get("message", ""))
                if "shutting down" in said.lower():
                    raise EngineUnavailable(str(response.status_code))
                raise pull_refused(said, response.status_code, repository=self._reference.repository)
            for line in response.iter_lines():
                if line:
                    yield json.loads(line)

    def _failure(self, error: Exception) -> Exception:
        silent = isinstance(error, requests.ReadTimeout) or (
            isinstance(error, requests.ConnectionError)
            and any(isinstance(each, urllib3.exceptions.ReadTimeoutError) for each in error.args)
        )
        try:
            if silent and self._api.ping():
                return RuntimeRefused("registry_unavailable", "silent")
        except (requests.RequestException, DockerException):
            pass
        return EngineUnavailable(type(error).__name__)
