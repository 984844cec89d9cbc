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
    token = _token(settings)
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


def identity_renew(
    settings: Settings, store: StateStore, client: PlatformClient, host: Host, *, simulated: bool, stop: threading.Event
) -> Identity | None:
    """Enrol this machine anew with a token made for it, and keep everything else; null when stopped before the answer.

    Until the platform says yes the old identity stays; asking again after a lost answer asks the same. Raises AgentError
    (nothing to renew, another platform, no token) and EnrolmentRefused.
    """
    identity = store.identity_get()
    if identity is None or identity.machine_id is None:
        raise AgentError("--state: found no enrolled machine, allowed: the folder of one; `run` enrols a new machine")
    if not _same_platform(identity.url, settings.url.rstrip("/")):
        raise AgentError(f"--url: found {settings.url}, allowed: {identity.url}, where this machine is enrolled")
    token = _token(settings)
    key, credential = store.identity_anew(credential_make())
    request = EnrolRequest(
        protocol=PROTOCOL,
        token=token,
        idempotency_key=key,
        credential=credential,
        boot_id=boot_id(),
        agent_version=AGENT_VERSION,
        simulated=simulated,
        host=host,
    )
    try:
        machine_id = _enrol(client, request, stop)
    except EnrolmentRefused:
        store.identity_anew_end(None)
        raise
    if machine_id is None:
        return None
    store.identity_anew_end(machine_id)
    _token_forget(settings)
    return store.identity_get()


def _token(settings: Settings) -> str:
    token = token_read(settings)
    if token is None:
        raise AgentError(
            "enrolment token: found none, allowed: the token from the approval e-mail in GPUNEX_TOKEN, in --token-file, "
            "or typed at the prompt of a terminal"
        )
    return token


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
