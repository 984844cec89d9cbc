"""Schedules are versions: an edit opens the next one and never rewrites what was declared before."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from core import news
from core.errors import Invalid
from core.locks import lock_name
from providers.models import Machine, Provider, Schedule
from providers.schedules import ALWAYS_ON, WeeklySchedule, narrows, next_change, windows_json, windows_parse, zones

NARROWING_COUNTS_AFTER = timedelta(hours=24)
"""Narrowing hides at once but counts for the score a day later, or closing early would hide an outage."""
SWEEP_BATCH = 500


def schedule_parse(*, zone: str, always_on: bool, windows: Any) -> WeeklySchedule:
    """The schedule that the three inputs say. Raises Invalid naming the field."""
    if always_on:
        return WeeklySchedule(zone=zone if zone in zones() else "UTC", always_on=True)
    if zone not in zones():
        raise Invalid.field("zone", found=zone, allowed="an IANA time zone such as Europe/Berlin")
    parsed = windows_parse(windows)
    if not parsed:
        raise Invalid.field("windows", found="no window", allowed="at least one window, or 24/7")
    return WeeklySchedule(zone=zone, windows=parsed)


def schedule_set(
    *,
    provider: Provider,
    machine: Machine | None = None,
    zone: str,
    always_on: bool,
    windows: Any,
    actor: object,
    now: datetime,
) -> Schedule:
    """Open a new version of the provider's default schedule, or of one machine's own. The same again changes nothing."""
    wanted = schedule_parse(zone=zone, always_on=always_on, windows=windows)
    owner = {"provider": None, "machine": machine} if machine is not None else {"provider": provider, "machine": None}
    subject = machine.pk if machine is not None else provider.pk
    with transaction.atomic():
        lock_name(f"schedule:{subject}")
        last = Schedule.objects.filter(**owner).order_by("-version").first()
        before = last.weekly if last is not None else ALWAYS_ON
        if last is not None and before == wanted:
            return last
        late = narrows(before, wanted, now) and last is not None
        Schedule.objects.filter(**owner, next_change_at__isnull=False).update(next_change_at=None)
        row = Schedule.objects.create(
            **owner,
            version=(last.version if last is not None else 0) + 1,
            zone=wanted.zone,
            always_on=wanted.always_on,
            windows=windows_json(wanted.windows),
            valid_from=now,
            scored_from=now + NARROWING_COUNTS_AFTER if late else now,
            next_change_at=next_change(wanted, now),
            created_at=now,
        )
        news.publish("schedule.version", provider.pk, now=now)
    return row


def schedules_sweep(*, now: datetime) -> int:
    """Tell of every schedule that opened or closed since the last sweep; returns how many. Touches nothing else."""
    with transaction.atomic():
        due = Schedule.objects.filter(next_change_at__lte=now).select_related("machine").order_by("next_change_at")
        rows = list(due.select_for_update(skip_locked=True, of=("self",))[:SWEEP_BATCH])
        told = set()
        for row in rows:
            Schedule.objects.filter(pk=row.pk).update(next_change_at=next_change(row.weekly, now))
            told.add(row.machine.provider_id if row.machine is not None else row.provider_id)
        for provider_id in told:
            if provider_id is not None:
                news.publish("schedule.version", provider_id, now=now)
    return len(rows)
