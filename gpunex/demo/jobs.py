"""What became of the jobs that ran on the demo's hosts when bin/start was stopped."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from core.states import SYSTEM
from gpunex.demo.world import ADA, OTHERS
from gpunex.starter.folder import STOPPED
from marketplace.models import Attempt
from marketplace.services import attempt_stop_by_id


def jobs_stopped_with_us(folder: Path, *, now: datetime) -> int:
    """Say of what still ran at bin/start's last stop that the platform stopped it; returns how many attempts that are.

    The demo's hosts are one machine with the platform and end with it, so no provider is to blame. The order is older than
    anything their agents will say, which is why it is given before they start. After a crash there was no stop: the
    jobs have run on, and their agents adopt them.
    """
    mark = folder / STOPPED
    if not mark.exists():
        return 0
    handles = [spec.handle for spec in (ADA, *OTHERS)]
    live = Attempt.objects.exclude(status=Attempt.Status.ENDED).filter(provider__party__handle__in=handles)
    stopped = sum(
        attempt_stop_by_id(attempt_id=attempt_id, reason="platform_stop", actor=SYSTEM, now=now)
        for attempt_id in live.order_by("pk").values_list("pk", flat=True)
    )
    mark.unlink()
    return stopped
