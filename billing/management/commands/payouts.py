"""``manage.py payouts run --as-of DATE | status | freeze REASON | thaw REASON | match``. It releases nothing."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from billing.models import Payout, PayoutRun
from billing.selectors.payouts import destination_shown, payouts_frozen
from billing.services import payouts_freeze, payouts_match, payouts_run
from core import clock
from core.errors import DomainError
from core.money import format_usdc

LOOK_SECONDS = 0.5
COMMAND_LINE = "command line"


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"found {text!r}; allowed: a date such as 2026-12-07") from None


class Command(BaseCommand):
    help = "Plan the payout runs that are due, show where they stand, stop or resume signing."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        run = verbs.add_parser("run", help="plan what is due on a day; the money worker pays")
        run.add_argument("--as-of", type=_date, default=None, metavar="DATE", help="the day (default: today, UTC)")
        run.add_argument("--wait", type=float, default=0, metavar="SECONDS", help="watch until nothing is open")
        verbs.add_parser("status", help="runs and payouts that are open")
        freeze = verbs.add_parser("freeze", help="sign nothing until thawed")
        freeze.add_argument("reason")
        freeze.add_argument(
            "--restored", action="store_true", help="the books come from a backup: match before the thaw"
        )
        verbs.add_parser("thaw", help="sign again").add_argument("reason")
        verbs.add_parser("match", help="after a restore: what the chain has against what the books know")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(options)
        except DomainError as error:
            raise CommandError(error.message) from error

    def _run(self, options: dict[str, Any]) -> None:
        now = clock.now()
        runs = payouts_run(as_of=options["as_of"] or now.date(), now=now, actor=COMMAND_LINE)
        deadline = time.monotonic() + options["wait"]
        # Only looking: whoever releases and signs is somebody else.
        while time.monotonic() < deadline and self._open(runs):
            time.sleep(LOOK_SECONDS)
        for run in runs:
            run.refresh_from_db()
            self._show(run)
        if options["wait"] and (left := self._open(runs)):
            raise CommandError(f"{left} payouts are still open; manage.py payouts status shows them.")

    def _open(self, runs: list[PayoutRun]) -> int:
        return Payout.objects.filter(run__in=runs, status__in=Payout.OPEN).count()

    def _status(self, options: dict[str, Any]) -> None:
        frozen = payouts_frozen()
        self.stdout.write(f"payouts are frozen: {frozen.reason}" if frozen else "payouts are not frozen")
        for run in PayoutRun.objects.exclude(status=PayoutRun.Status.FINISHED).order_by("created_at"):
            self._show(run)

    def _freeze(self, options: dict[str, Any]) -> None:
        restored = options["restored"]
        payouts_freeze(frozen=True, reason=options["reason"], now=clock.now(), actor=COMMAND_LINE, restored=restored)
        self.stdout.write("frozen: nothing is signed until it is thawed")

    def _match(self, options: dict[str, Any]) -> None:
        found = payouts_match(now=clock.now(), actor=COMMAND_LINE)
        up_to = f"up to slot {found.through_slot}"
        self.stdout.write(f"{found.matched} payments on chain are in the books, {found.open} are not ({up_to})")
        for finding in found.findings:
            amount = format_usdc(finding["amount_micro"])
            line = "  {what} {signature}: {amount} USDC to {address}, payout {payout}"
            self.stdout.write(line.format(**finding | {"amount": amount}))
        if found.open:
            raise CommandError(
                "Payouts stay frozen: book these payments in the admin (chain matches), then match again."
            )

    def _thaw(self, options: dict[str, Any]) -> None:
        payouts_freeze(frozen=False, reason=options["reason"], now=clock.now(), actor=COMMAND_LINE)
        self.stdout.write("thawed")

    def _show(self, run: PayoutRun) -> None:
        payouts = list(run.payouts.select_related("party").order_by("created_at"))
        total = format_usdc(sum(payout.amount_micro for payout in payouts))
        reason = f" ({run.pause_reason})" if run.pause_reason else ""
        period = f"{run.period_start}..{run.period_end}"
        self.stdout.write(f"{run.kind} {period}: {run.status}{reason}, {len(payouts)} payouts, {total} USDC")
        for payout in payouts:
            note = f" ({payout.note})" if payout.note else ""
            amount = format_usdc(payout.amount_micro)
            self.stdout.write(
                f"  {payout.pk} {payout.party.handle} {amount} → {destination_shown(payout)} {payout.status}{note}"
            )
