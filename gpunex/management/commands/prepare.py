"""``manage.py prepare``: what bin/start needs before the first request. Everything here may run again.

Migrations by the owner's role, the installation's mark, static files, then the demo's data or the operator's log-in; in
one process, so that a second start is quick.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from core import clock
from gpunex.demo.build import demo_build
from gpunex.demo.jobs import jobs_stopped_with_us
from gpunex.demo.people import OPERATOR, cast_gather
from gpunex.models import Installation


class Command(BaseCommand):
    help = "Migrate the database and put in what a start needs."

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", database="owner", verbosity=0)
        now = clock.now()
        kind = Installation.Kind.DEMO if settings.DEMO else Installation.Kind.PLAIN
        Installation.objects.get_or_create(
            id=1, defaults={"kind": kind, "genesis_hash": settings.SOLANA_GENESIS_HASH, "created_at": now}
        )
        if settings.DEMO:
            demo_build(settings.DATA_DIR, now=now)
            jobs_stopped_with_us(settings.DATA_DIR, now=now)
        else:
            call_command("collectstatic", interactive=False, verbosity=0)
            cast_gather(settings.DATA_DIR / "logins.json", cast=OPERATOR, domain="gpunex.example")
