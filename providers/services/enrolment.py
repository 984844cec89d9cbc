"""A host becomes a machine: once per idempotency key, however often the agent has to ask."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext as _

from agent_protocol.messages import Host
from agent_protocol.version import MINIMUM_AGENT_VERSION, version_at_least
from core import bell, news
from core.errors import Conflict, Denied, Unauthorized, UpgradeRequired
from core.ids import secret_hash
from core.locks import lock_rows
from providers.models import EnrolmentToken, Machine, MachineCredential, Provider
from providers.selectors.credentials import credentials_forget
from providers.services.plans import machine_channel
from providers.states import MACHINE, MACHINE_LIVE


class Enrolled(NamedTuple):
    """``created`` is false when this very request had been answered before."""

    machine: Machine
    created: bool


def machine_enrol(
    *,
    token: str,
    key: UUID,
    credential_hash: bytes,
    boot_id: str,
    agent_version: str,
    simulated: bool,
    host: Host,
    now: datetime,
) -> Enrolled:
    """Enrol a host under a token. The same token, key and credential again give the same machine. A token that was made for a
    machine (reenrolment_token_issue) brings that one back, under the new credential alone.

    Raises Unauthorized ``token_unknown`` | ``token_revoked`` | ``token_expired`` | ``token_used_up``; Denied
    ``simulated_refused`` (a simulated host outside demo mode) | ``provider_not_active``; Conflict ``key_foreign`` (the
    key belongs to another token or credential) | ``machine_gone``; UpgradeRequired. Nothing has moved then.
    """
    if not version_at_least(agent_version, MINIMUM_AGENT_VERSION):
        raise UpgradeRequired(
            _("Agent %(found)s is too old; at least %(least)s is needed. Run the installer again.")
            % {"found": agent_version, "least": MINIMUM_AGENT_VERSION}
        )
    if simulated and not settings.DEMO:
        raise Denied(_("Simulated GPUs are welcome in demo mode only."), code="simulated_refused")
    try:
        with transaction.atomic():
            # The token's row lock lets one enrolment pass at a time, so that uses and keys are read as they are.
            row = EnrolmentToken.objects.select_for_update().filter(secret_hash=secret_hash(token)).first()
            if row is None:
                raise Unauthorized(_("This enrolment token does not exist."), code="token_unknown")
            before = Machine.objects.filter(enrol_key=key).first()
            if before is not None:
                return Enrolled(_known(before, row, credential_hash), created=False)
            if row.machine_id is not None and _again(row, key, credential_hash):
                return Enrolled(Machine.objects.get(pk=row.machine_id), created=False)
            _open(row, now)
            EnrolmentToken.objects.filter(pk=row.pk).update(uses_left=F("uses_left") - 1)
            if row.machine_id is not None:
                machine = _anew(row, key, credential_hash, boot_id, agent_version, simulated, host, now)
                return Enrolled(machine, created=True)
            machine = _machine(row, key, boot_id, agent_version, simulated, host, now)
            MachineCredential.objects.create(machine=machine, secret_hash=credential_hash, used_at=now, created_at=now)
            news.publish("machine.state", machine.pk, now=now)
    except IntegrityError as error:
        # The same key under two tokens at once, or a credential that another machine has: both are somebody else's.
        raise _foreign() from error
    return Enrolled(machine, created=True)


def _foreign() -> Conflict:
    return Conflict(_("This idempotency key belongs to another enrolment."), code="key_foreign")


def _known(machine: Machine, token: EnrolmentToken, credential_hash: bytes) -> Machine:
    mine = MachineCredential.objects.filter(machine=machine, secret_hash=credential_hash, revoked_at__isnull=True)
    if machine.enrol_token_id != token.pk:
        raise _foreign()
    if machine.status in (Machine.Status.RETIRED, Machine.Status.REVOKED):
        raise Conflict(_("This machine has been removed; enrol it anew."), code="machine_gone")
    if not mine.exists():
        raise _foreign()
    return machine


def _again(token: EnrolmentToken, key: UUID, credential_hash: bytes) -> bool:
    """Whether this very request has brought the machine back before."""
    made = MachineCredential.objects.filter(enrol_key=key, machine=token.machine_id, revoked_at__isnull=True).first()
    return made is not None and bytes(made.secret_hash) == credential_hash


def _anew(
    token: EnrolmentToken,
    key: UUID,
    credential_hash: bytes,
    boot_id: str,
    agent_version: str,
    simulated: bool,
    host: Host,
    now: datetime,
) -> Machine:
    """The same machine under a new credential: whoever had one until now, host or copy, is shut out at once."""
    (machine,) = lock_rows(Machine.objects.select_related("provider"), [token.machine_id])
    if machine.status not in MACHINE_LIVE:
        raise Conflict(_("This machine has been removed; enrol it anew."), code="machine_gone")
    if simulated != machine.simulated:
        raise Denied(_("A simulated machine stays one, and a real one too."), code="simulated_refused")
    MachineCredential.objects.filter(machine=machine, revoked_at__isnull=True).update(revoked_at=now)
    MachineCredential.objects.create(
        machine=machine, secret_hash=credential_hash, enrol_key=key, used_at=now, created_at=now
    )
    columns = host_columns(host) | {"boot_id": boot_id, "sequence": 0, "agent_version": agent_version}
    Machine.objects.filter(pk=machine.pk).update(**columns)
    if machine.status == Machine.Status.QUARANTINED:
        changes = {"status_reason": ""}
        MACHINE.move(
            machine,
            to=Machine.Status.PENDING_CONFIRMATION,
            at=now,
            actor=f"token:{token.pk}",
            reason="enrolled_anew",
            changes=changes,
        )
    news.publish("machine.state", machine.pk, now=now)
    credentials_forget(machine.pk)
    bell.ring(machine_channel(machine.pk), event="revoke")
    return machine


def _open(token: EnrolmentToken, now: datetime) -> None:
    if token.revoked_at is not None:
        raise Unauthorized(_("This enrolment token was revoked; create a new one."), code="token_revoked")
    if token.expires_at <= now:
        raise Unauthorized(_("This enrolment token has expired; create a new one."), code="token_expired")
    if token.uses_left < 1:
        raise Unauthorized(
            _("This enrolment token has been used for all of its machines; create a new one."), code="token_used_up"
        )
    if token.provider.status != Provider.Status.ACTIVE:
        raise Denied(_("This provider is not active."), code="provider_not_active")


def _machine(
    token: EnrolmentToken, key: UUID, boot_id: str, agent_version: str, simulated: bool, host: Host, now: datetime
) -> Machine:
    provider = token.provider
    number = Machine.objects.filter(provider=provider).count() + 1
    return Machine.objects.create(
        provider=provider,
        name=host.hostname or f"machine-{number}",
        simulated=simulated,
        country=provider.country,
        region=provider.region,
        boot_id=boot_id,
        agent_version=agent_version,
        enrolled_at=now,
        created_at=now,
        enrol_key=key,
        enrol_token=token,
        **host_columns(host),
    )


def host_columns(host: Host) -> dict[str, object]:
    """The machine columns that come from a host report."""
    return {
        "host": host.to_dict(),
        "ram_bytes": host.ram_bytes,
        "cpu_count": host.cpu_count,
        "disk_total_bytes": host.disk_total_bytes,
        "driver_version": host.driver_version or "",
        "cuda_version": host.cuda_version or "",
    }
