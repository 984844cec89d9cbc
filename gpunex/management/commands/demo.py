"""``manage.py demo``: build the demo's data (bin/start does it); ``--follow``: wait for its hosts and confirm them."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from core import clock
from gpunex.demo.build import demo_build, demo_follow, demo_unlisted
from gpunex.models import Installation
from marketplace.services import market_prices_write

LOOK_SECONDS = 1.0
PATIENCE_SECONDS = 120.0
"""A machine that somebody drained, or whose price was taken back, does not come: the demo goes on without it."""


class Command(BaseCommand):
    help = "Build a believable demo in this (demo) installation; running it again adds only what is missing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--follow", action="store_true", help="wait until the demo's hosts are in the market, confirm them"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.DEMO or not Installation.objects.filter(kind=Installation.Kind.DEMO).exists():
            raise CommandError("This installation is not a demo; it is left as it is.")
        if not options["follow"]:
            demo_build(settings.DATA_DIR, now=clock.now())
            return
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (waiting := demo_follow(now=clock.now()) or demo_unlisted()) and time.monotonic() < deadline:
            self.stdout.write(f"{waiting} machines are still to come")
            time.sleep(LOOK_SECONDS)
        market_prices_write(now=clock.now())
