"""manage.py replay_score --provider HANDLE [--as-of INSTANT]: the score again, from stored events alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from core import clock
from providers.models import Provider
from reliability.models import Score
from reliability.models.score import Subject
from reliability.selectors import score_parts
from reliability.services.scores import Figures, scores_compute


class Command(BaseCommand):
    help = "Recompute a provider's reliability score from stored events and compare it with the stored one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--provider", required=True, metavar="HANDLE", help="the provider's public handle")
        parser.add_argument(
            "--as-of",
            metavar="INSTANT",
            help="ISO 8601; default: the instant of the stored score. Without an offset it is UTC.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        provider = Provider.objects.filter(party__handle=options["provider"]).first()
        if provider is None:
            raise CommandError(f"There is no provider {options['provider']}.")
        stored = score_parts(provider)
        as_of = _instant(options["as_of"], stored)
        figures = next(
            row for row in scores_compute([provider.pk], as_of=as_of) if row.subject_kind == Subject.PROVIDER
        )
        self.stdout.write(f"as of {as_of.isoformat()}")
        for name, value in (("U", figures.u), ("C", figures.c), ("B", figures.b), ("S", figures.s)):
            self.stdout.write(f"{name} {'unknown' if value is None else value}")
        if stored is not None and stored.computed_at == as_of:
            self._compare(figures, stored)

    def _compare(self, figures: Figures, stored: Score) -> None:
        differing = [
            f"{name}: stored {getattr(stored, name)}, replayed {getattr(figures, name)}"
            for name in ("u", "c", "b", "s")
            if getattr(stored, name) != getattr(figures, name)
        ]
        if differing:
            raise CommandError("The stored score differs. " + "; ".join(differing))
        self.stdout.write("The stored score is the same.")


def _instant(text: str | None, stored: Score | None) -> datetime:
    if text is None:
        return clock.now() if stored is None else stored.computed_at
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--as-of: found {text!r}; allowed: an instant such as 2026-06-01T12:00:00+00:00.") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
