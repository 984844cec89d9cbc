"""POST /agent/v1/sync: a host says what is, the platform answers what should be.

When nothing has changed this costs no SQL and no Valkey call: the credential and the plan's version are remembered
(gpunex.agent_sessions), the heartbeat is passed on once a second (gpunex.agent_heartbeats).
"""

from __future__ import annotations

import time
from copy import copy
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from agent_protocol.fields import json_write
from agent_protocol.messages import (
    AttemptStatus,
    BenchmarkStatus,
    CredentialReply,
    CredentialRequest,
    SyncRequest,
    inventory_digest,
)
from agent_protocol.version import MINIMUM_AGENT_VERSION, PROTOCOL, version_at_least
from benchmarks.services import run_observe
from core import bell, clock
from core.errors import DomainError, NotFound, SlowDown, UpgradeRequired
from core.ids import secret_hash
from gpunex.agent_door import agent_view, bearer_of, read, refusal, session_of
from gpunex.agent_heartbeats import BATCH, Heartbeat
from gpunex.agent_sessions import Session
from marketplace.selectors import plan_complete
from marketplace.services import attempt_observe
from providers.selectors import inventory_digest_of, plan_of
from providers.services import (
    machine_channel,
    machine_credential_add,
    machine_credential_use,
    machine_inventory_record,
    machine_session_record,
)

log = structlog.get_logger(__name__)

SYNC_SECONDS = 15
"""The heartbeat's pace; suspect after 45 s, offline after 90 s (reliability)."""
CONFIRM_SECONDS = 10.0
"""What runs is passed on with every heartbeat, though not with every ring: seconds are charged up to the last
confirmation, and the verbs below decide how often one is written."""
CREDENTIAL_AGE = timedelta(days=30)
"""A copy of a state folder that nobody noticed opens nothing after this."""
CLOCK_SKEW_S = 30.0
"""More than any request takes; logs and certificates begin to confuse people at minutes."""
MAX_SKEW_S = 2_000_000_000
BURST, PER_SECOND = 30.0, 1.0
"""Syncs a machine may send at once, and how many it earns back per second; rings come on top of the heartbeat."""


@agent_view
def sync(request: HttpRequest) -> HttpResponse:
    session = session_of(request)
    _slow_down(session)
    message = read(request, SyncRequest)
    if not version_at_least(message.agent_version, MINIMUM_AGENT_VERSION):
        raise UpgradeRequired(f"Agent {message.agent_version} is too old; run the installer again.")
    now = clock.now()
    telemetry = [reading.to_dict() for reading in message.telemetry]
    spoke = session.credential.credential_id.hex if session.credential else ""
    BATCH.note(
        Heartbeat(session.machine.id, now, message.boot_id, telemetry), sequence=message.sequence, credential=spoke
    )
    _credential_used(session, now)
    moved = _session_changed(session, message, now)
    moved |= _statuses_came(session, message, now)
    if message.inventory is not None:
        machine_inventory_record(machine=session.machine, inventory=message.inventory, now=now)
        session.inventory_digest = inventory_digest(message.inventory)
        moved = True
    version, plan = _plan(session, message.plan_version, ask=moved)
    reply = {
        "protocol": PROTOCOL,
        "server_time": now.isoformat(),
        "plan_version": version,
        "plan": plan,
        "inventory_wanted": _inventory_wanted(session, message.inventory_digest),
        "sync_after_s": SYNC_SECONDS,
        "rotate_credential": _rotate_wanted(session, now),
        "minimum_agent_version": MINIMUM_AGENT_VERSION,
        "bell": {"path": "/agent/v1/bell", "ticket": bell.ticket_issue(machine_channel(session.machine.id))},
    }
    return HttpResponse(json_write(reply), content_type="application/json")


def _slow_down(session: Session) -> None:
    """A token bucket per machine and process. Raises SlowDown."""
    at = time.monotonic()
    tokens, before = session.allowance
    tokens = min(BURST, tokens + (at - before) * PER_SECOND)
    if tokens < 1:
        session.allowance = (tokens, at)
        raise SlowDown("This machine syncs too often.", retry_after_s=5)
    session.allowance = (tokens - 1, at)


def _session_changed(session: Session, message: SyncRequest, now: datetime) -> bool:
    """Record a new boot, another agent version or another list of degradations."""
    skew = _clock_skew(message.sent_at, now)
    told = (message.boot_id, message.agent_version, tuple(sorted(message.degraded)), skew is not None)
    if told == session.told:
        return False
    machine_session_record(
        machine_id=session.machine.id,
        boot_id=message.boot_id,
        sequence=message.sequence,
        agent_version=message.agent_version,
        degraded=sorted(message.degraded),
        clock_skew_s=skew,
        now=now,
    )
    session.told = told
    # The cached row is shared between threads: a copy carries what the verbs below compare with.
    session.machine = copy(session.machine)
    session.machine.boot_id = message.boot_id
    return True


def _clock_skew(sent_at: str | None, now: datetime) -> int | None:
    """Seconds that the host's clock is behind, when that is worth telling: everything is stamped here, so it breaks nothing."""
    if sent_at is None:
        return None
    behind = (now - datetime.fromisoformat(sent_at)).total_seconds()
    return None if abs(behind) <= CLOCK_SKEW_S else int(max(-MAX_SKEW_S, min(MAX_SKEW_S, behind)))


def _credential_used(session: Session, now: datetime) -> None:
    """The first sync under a new credential ends its predecessor."""
    known = session.credential
    if known is not None and not known.used:
        machine_credential_use(credential_id=known.credential_id, now=now)
        session.credential = known._replace(used=True)


def _rotate_wanted(session: Session, now: datetime) -> bool:
    """Whether the credential is older than its time, or than the wish to change it."""
    known, wanted_at = session.credential, session.machine.rotate_wanted_at
    if known is None:
        return False
    return known.made_at <= now - CREDENTIAL_AGE or (wanted_at is not None and known.made_at < wanted_at)


@agent_view
def credential(request: HttpRequest) -> HttpResponse:
    """POST /agent/v1/credential: the machine will use another credential. The old one works until the new one was used."""
    session = session_of(request)
    wanted = read(request, CredentialRequest)
    now = clock.now()
    machine_credential_add(
        machine_id=session.machine.id,
        current_hash=secret_hash(bearer_of(request)),
        new_hash=secret_hash(wanted.credential),
        now=now,
    )
    reply = CredentialReply(machine_id=str(session.machine.id), server_time=now.isoformat())
    return HttpResponse(json_write(reply.to_dict()), content_type="application/json")


def _inventory_wanted(session: Session, digest: str) -> bool:
    if session.inventory_digest != digest:
        session.inventory_digest = inventory_digest_of(session.machine.id)  # another process may have recorded it
    return session.inventory_digest != digest


def _statuses_came(session: Session, message: SyncRequest, now: datetime) -> bool:
    """Pass on what changed about attempts and benchmark runs; running attempts also every CONFIRM_SECONDS."""
    at = time.monotonic()
    moved = False
    for status in message.attempts:
        told = (message.boot_id, status.state, status.exit_code, status.reason, status.token)
        stale_after = CONFIRM_SECONDS if status.state == "running" else float("inf")
        if session.news(status.attempt_id, told, at=at, stale_after=stale_after):
            _observe_attempt(session, status, now)
            session.passed_on(status.attempt_id, told, at=at)
            moved = True
    for run in message.benchmarks:
        progress = (run.state, run.progress_percent)
        if session.news(run.run_id, progress, at=at, stale_after=CONFIRM_SECONDS):
            _observe_run(session, run, now)
            session.passed_on(run.run_id, progress, at=at)
            moved = True
    named = {status.attempt_id for status in message.attempts} | {run.run_id for run in message.benchmarks}
    session.keep_only(named)
    return moved


def _observe_attempt(session: Session, status: AttemptStatus, now: datetime) -> None:
    # A report under an old token or about somebody else's attempt must not cost the machine its heartbeat: it is kept
    # in the log, and the plan tells the agent what is wanted.
    try:
        attempt_observe(machine=session.machine, status=status, now=now)
    except DomainError as error:
        log.warning("attempt_report_refused", attempt=status.attempt_id, code=error.code, state=status.state)


def _observe_run(session: Session, status: BenchmarkStatus, now: datetime) -> None:
    try:
        run_observe(
            machine=session.machine,
            run_id=UUID(status.run_id),
            state=status.state,
            progress=status.progress_percent,
            now=now,
        )
    except DomainError as error:
        log.warning("run_report_refused", run=status.run_id, code=error.code, state=status.state)


def _plan(session: Session, known: int | None, *, ask: bool) -> tuple[int, list[dict[str, Any]] | None]:
    """(version, items), where items is None when the version the agent named is current."""
    if not ask and known is not None and known == session.plan_version:
        return known, None
    version, items = plan_of(session.machine.id)
    session.plan_version = version
    return version, None if known == version else plan_complete(items)


@require_safe
def bell_redirect(request: HttpRequest) -> HttpResponse:
    """GET /agent/v1/bell on the web server: the doorbell is elsewhere (behind a proxy it is one origin)."""
    if not settings.BELL_URL:
        return refusal(request, NotFound("No doorbell is configured; go on at heartbeat pace."))
    query = urlencode({"ticket": request.GET.get("ticket", "")})
    answer = HttpResponseRedirect(f"{settings.BELL_URL}{request.path}?{query}")
    answer.status_code = 307
    return answer
