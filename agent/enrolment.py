"""Becoming a machine, once, whatever gets lost on the way."""

import base64
import logging
import secrets
import threading

from agent.client import PlatformClient, Refused, SlowDown, Unreachable
from agent.clock import boot_id
from agent.config import Settings, is_loopback, token_read
from agent.errors import AgentError, EnrolmentRefused
from agent.pacing import Backoff
from agent.state import Identity, StateStore
from agent_protocol.messages import EnrolRequest, Host
from agent_protocol.version import AGENT_VERSION, PROTOCOL

log = logging.getLogger("agent.enrolment")


def identity_ensure(
    settings: Settings, store: StateStore, client: PlatformClient, host: Host, *, simulated: bool, stop: threading.Event
) -> Identity | None:
    """The confirmed identity, enrolling first if there is none; null when the agent is stopped before the answer.

    Raises AgentError (the folder belongs to another platform, no token) and EnrolmentRefused (the platform said no).
    """
    identity = store.identity_get()
    if identity is not None and not _same_platform(identity.url, settings.url.rstrip("/")):
        raise AgentError(
            f"--url: found {settings.url}, allowed: {identity.url}, where this state folder's machine is enrolled. "
            "Use another --state folder for another platform."
        )
    if identity is not None and identity.machine_id is not None:
        client.authorize(identity.credential)
        _token_forget(settings)
        return identity
    token = token_read(settings)
    if token is None:
        raise AgentError(
            "enrolment token: found none, allowed: the token from the approval e-mail in GPUNEX_TOKEN, in --token-file, "
            "or typed at the prompt of a terminal"
        )
    if identity is None:
        identity = store.identity_create(credential=credential_make(), url=settings.url.rstrip("/"))
    request = EnrolRequest(
        protocol=PROTOCOL,
        token=token,
        idempotency_key=identity.idempotency_key,
        credential=identity.credential,
        boot_id=boot_id(),
        agent_version=AGENT_VERSION,
        simulated=simulated,
        host=host,
    )
    machine_id = _enrol(client, request, stop)
    if machine_id is None:
        return None
    store.identity_confirm(machine_id)
    client.authorize(identity.credential)
    _token_forget(settings)
    log.info("enrolled", extra={"machine_id": machine_id})
    return store.identity_get()


def _token_forget(settings: Settings) -> None:
    """A token file inside the state folder was handed to this agent alone (the installer does so); it is used up now."""
    file = settings.token_file
    if file is None or file.absolute().parent != settings.state.absolute():
        return
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        log.warning("the used token could not be deleted", extra={"file": str(file), "why": str(error)})


def _same_platform(enrolled: str, given: str) -> bool:
    """A platform on this machine may come back on another port; one elsewhere is known by its whole address."""
    return enrolled == given or (is_loopback(enrolled) and is_loopback(given))


def _enrol(client: PlatformClient, request: EnrolRequest, stop: threading.Event) -> str | None:
    """Ask until there is an answer; the key makes asking twice the same as asking once."""
    backoff = Backoff(1.0, 60.0)
    while not stop.is_set():
        try:
            return client.enrol(request).machine_id
        except SlowDown as error:
            stop.wait(error.retry_after_s)
        except Unreachable as error:
            wait = backoff.next()
            log.warning("enrolment not answered", extra={"why": str(error), "retry_in_s": round(wait, 1)})
            stop.wait(wait)
        except Refused as error:
            raise EnrolmentRefused(f"the platform refused the enrolment: {error.message} ({error.code})") from None
    return None


def credential_make() -> str:
    """256 random bits that only this host knows; the platform keeps a hash."""
    return "gpxa_" + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode("ascii")
