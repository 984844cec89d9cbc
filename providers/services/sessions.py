"""What changes between two sessions of a machine's agent: its boot, its version, what it finds wrong with the host."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from core import bell, news
from core.locks import lock_rows
from providers.models import Machine
from providers.selectors.credentials import credentials_forget
from providers.services.plans import machine_channel


def machine_session_record(
    *,
    machine_id: UUID,
    boot_id: str,
    sequence: int,
    agent_version: str,
    degraded: list[str],
    clock_skew_s: int | None,
    now: datetime,
) -> None:
    """Record a new boot, another agent version, other degradations (agent_protocol.reasons.DEGRADATIONS, sorted), or that the
    host's clock went wrong or right (``clock_skew_s`` null: right). A wrong clock is shown and breaks nothing.

    Publishes ``machine.state`` when the degradations changed: a degraded machine takes no new jobs. The same session
    again changes nothing.
    """
    with transaction.atomic():
        for machine in lock_rows(Machine.objects.all(), [machine_id]):
            before = (machine.boot_id, machine.agent_version, machine.degraded, machine.clock_skew_s is None)
            if before == (boot_id, agent_version, degraded, clock_skew_s is None):
                return
            Machine.objects.filter(pk=machine_id).update(
                boot_id=boot_id,
                sequence=sequence,
                agent_version=agent_version,
                degraded=degraded,
                clock_skew_s=clock_skew_s,
            )
            if machine.degraded != degraded:
                news.publish("machine.state", machine_id, now=now)
            credentials_forget(machine_id)
            bell.ring(machine_channel(machine_id), event="session")  # web processes forget; the agent need not hear it
