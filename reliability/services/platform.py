"""Were *we* there? After a start of the platform or a loss of Valkey, silence proves nothing for a while."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import structlog
from django.db import transaction

from core.ids import uuid7
from core.locks import lock_name
from core.valkey import valkey
from reliability.models import MachineHealth, PlatformOutage, PlatformPulse
from reliability.selectors import live
from reliability.states import PULSE_GAP_SECONDS

log = structlog.get_logger(__name__)

NO_VERDICT_SECONDS = 120
"""After a start nobody is called offline: every agent needs a chance to be heard again (a retry waits up to a minute)."""
REFILL_CHUNK = 5000


def pulse_take(*, now: datetime) -> PlatformPulse | None:
    """Say that we look at the fleet now; None when a twin is looking, or when Valkey's data had to begin anew just now.

    Raises redis.RedisError without Valkey: the pulse then stays old, and the gap becomes a platform outage afterwards.
    """
    epoch = live.epoch_seen()
    with transaction.atomic():
        pulse = PlatformPulse.objects.select_for_update(skip_locked=True).first()
        if pulse is None and PlatformPulse.objects.exists():
            return None
        if pulse is not None and now < pulse.swept_at:
            return None  # a twin was quicker
        awake = pulse is not None and now - pulse.swept_at <= timedelta(seconds=PULSE_GAP_SECONDS)
        if pulse is not None and awake and epoch == str(pulse.epoch):
            PlatformPulse.objects.filter(pk=pulse.pk).update(swept_at=now)
            pulse.swept_at = now
            return pulse
    platform_started(now=now)
    return None


def platform_started(*, now: datetime) -> PlatformPulse:
    """Begin an epoch: record the time since the last pulse as our outage and fill Valkey from PostgreSQL.

    Raises redis.RedisError; the next sweep then sees a foreign epoch and begins again.
    """
    epoch = uuid7()
    with transaction.atomic():
        lock_name("reliability:platform")
        before = PlatformPulse.objects.select_for_update().first()
        if before is not None and before.swept_at < now:
            PlatformOutage.objects.create(started_at=before.swept_at, ended_at=now, cause="silence")
        pulse, _made = PlatformPulse.objects.update_or_create(
            pk=1,
            defaults={
                "epoch": epoch,
                "epoch_started_at": now,
                "swept_at": max(now, before.swept_at if before else now),
            },
        )
    log.warning("platform_epoch_began", epoch=str(epoch), first=before is None)
    _refill()
    valkey().set(live.EPOCH_KEY, str(epoch))
    return pulse


def _refill() -> None:
    """What PostgreSQL knows, where Valkey knows nothing: a heartbeat that came first stays."""
    rows = MachineHealth.objects.exclude(state="offline").order_by("pk")
    values = list(rows.values_list("machine_id", "last_seen_at", "boot_id", "telemetry"))
    for number in range(0, len(values), REFILL_CHUNK):
        pipe = valkey().pipeline(transaction=False)
        for machine_id, at, boot_id, telemetry in values[number : number + REFILL_CHUNK]:
            text = json.dumps({"at": at.isoformat(), "boot_id": boot_id, "telemetry": telemetry})
            pipe.hsetnx(live.SEEN_KEY, str(machine_id), text)
        pipe.execute()
