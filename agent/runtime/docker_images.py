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

from agent.runtime.base import EngineUnavailable, RuntimeRefused
from agent.runtime.docker_answers import GUARD_AWAY, image_name
from agent.runtime.docker_errors import called, pull_refused
from agent_protocol.images import ImageReference, ImageRefused, image_parse
from agent_protocol.logins import login_address
from agent_protocol.messages import AttemptPlan, RegistryLogin

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


def image_pull(api: Any, plan: AttemptPlan, registries: frozenset[str], cancelled: Callable[[], bool]) -> str:
    """Pull, then name by digest: what runs is what was pulled, whatever the tag says a minute later.

    The registry is asked each time, also for what is here already: an image that one customer's login has brought is not
    another's to start. Raises RuntimeRefused, EngineUnavailable; stops early when cancelled.
    """
    try:
        reference = image_parse(plan.image, allowed_registries=registries)
    except ImageRefused as refused:
        raise RuntimeRefused("image_missing", refused.code) from None
    pull = _Pull(api, reference, _headers(plan.registry_login, reference), PULL_SILENCE_S)
    pull.start()
    try:
        while not cancelled():
            try:
                told = pull.told.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if told is None:
                break
            raise told
    finally:
        pull.given_up.set()
    if cancelled():
        return reference.pull_reference
    return _digest_name(api, reference, registries)


def _digest_name(api: Any, reference: ImageReference, registries: frozenset[str]) -> str:
    attrs = called(api.inspect_image, reference.pull_reference)
    for digest in attrs.get("RepoDigests") or ():
        # The same image may have been pulled from elsewhere too.
        if image_name(str(digest), registries) == reference.name:
            return str(digest)
    raise RuntimeRefused("image_missing", "no_digest")


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


class _Pull(threading.Thread):
    """Reads what the engine tells, so that who waits can be called off while it tells nothing.

    `told` gets one thing: null when the pull is over, else why it failed. Once `given_up` is set the connection is closed
    with the next word, or after the silence; the engine then ends the pull.
    """

    def __init__(self, api: Any, reference: ImageReference, headers: dict[str, str], silence_s: float) -> None:
        super().__init__(name=f"pull-{reference.repository}", daemon=True)
        self.told: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self.given_up = threading.Event()
        self._api, self._reference, self._headers, self._silence_s = api, reference, headers, silence_s

    def run(self) -> None:
        try:
            for line in self._lines():
                if self.given_up.is_set():
                    return
                if "error" in line:
                    raise pull_refused(str(line["error"]), repository=self._reference.repository)
            self.told.put(None)
        except (RuntimeRefused, EngineUnavailable) as error:
            self.told.put(error)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            self.told.put(self._failure(error))

    def _asked(self) -> Any:
        """The engine's answer, as it comes. For a digest that it has, an engine asks no registry when it is told to pull (20.10
        does not), so it is told to ask."""
        reference, api = self._reference, self._api
        root = f"{api.base_url}/v{api.api_version}"
        options = {"headers": self._headers, "stream": True, "timeout": (_CONNECT_S, self._silence_s)}
        if reference.digest and image_present(api, reference.pull_reference):
            return api.get(f"{root}/distribution/{reference.pull_reference.replace('@', '%40')}/json", **options)
        params = {"fromImage": reference.name, "tag": reference.digest or reference.tag}
        return api.post(f"{root}/images/create", params=params, **options)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with self._asked() as response:
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
