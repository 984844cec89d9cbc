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
from core import news
from core.errors import Conflict, Denied, Unauthorized, UpgradeRequired
from core.ids import secret_hash
from providers.models import EnrolmentToken, Machine, MachineCredential, Provider


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
    """Enrol a host under a token. The same token, key and credential again give the same machine.

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
            _open(row, now)
            EnrolmentToken.objects.filter(pk=row.pk).update(uses_left=F("uses_left") - 1)
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
