"""Providers, their machines, and what each machine is to do."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

from accounts.models import Party
from core.errors import NotFound
from providers.models import Gpu, Machine, Provider
from providers.states import MACHINE_LIVE

# One statement, so that the version and the items are of one moment.
_PLAN = """
SELECT machine.plan_version, item.kind, item.key, item.body::text
FROM providers_machine machine LEFT JOIN providers_planitem item ON item.machine_id = machine.id
WHERE machine.id = %s
ORDER BY item.created_at, item.id
"""


def plan_of(machine_id: UUID) -> tuple[int, list[dict[str, Any]]]:
    """The plan's version and its items as the wire has them: ``{"kind", "key", "body"}``. Raises NotFound."""
    with connection.cursor() as cursor:
        cursor.execute(_PLAN, [machine_id])
        rows = cursor.fetchall()
    if not rows:
        raise NotFound(_("There is no such machine."))
    items = [{"kind": kind, "key": str(key), "body": json.loads(body)} for _version, kind, key, body in rows if kind]
    return rows[0][0], items


def plan_version_of(machine_id: UUID) -> int:
    """The plan's version alone. Raises NotFound."""
    version = Machine.objects.filter(pk=machine_id).values_list("plan_version", flat=True).first()
    if version is None:
        raise NotFound(_("There is no such machine."))
    return version


def inventory_digest_of(machine_id: UUID) -> str:
    """The digest of the inventory that was recorded last; empty when none was."""
    return Machine.objects.filter(pk=machine_id).values_list("inventory_digest", flat=True).first() or ""


def provider_of(party: Party) -> Provider | None:
    """The party's provider profile, or null when it has none."""
    return Provider.objects.select_related("party").filter(party=party).first()


def machines_of(provider: Provider, *, live: bool = True) -> QuerySet[Machine]:
    """The provider's machines with their GPUs (retired ones left out), newest first; ``live=False``: all machines."""
    gpus = Gpu.objects.exclude(status=Gpu.Status.RETIRED).select_related("model").order_by("uuid")
    machines = Machine.objects.filter(provider=provider).prefetch_related(Prefetch("gpus", queryset=gpus))
    if live:
        machines = machines.filter(status__in=MACHINE_LIVE)
    return machines.order_by("-enrolled_at", "-id")


def machine_of(provider: Provider | None, machine_id: UUID) -> Machine:
    """The provider's own machine. Raises NotFound for anybody else's, as for none."""
    machine = None
    if provider is not None:
        machine = machines_of(provider, live=False).select_related("provider__party").filter(pk=machine_id).first()
    if machine is None:
        raise NotFound(_("There is no such machine."))
    return machine
