"""What an operator has to do today: the admin's first page. It reads every app, so it lives at the top."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import User
from benchmarks.selectors import verdicts_in_review
from billing.selectors import MoneyWaiting, money_waiting
from core import invariants, news
from core.money import format_usdc
from marketplace.selectors import disputes_open, jobs_open, listings_hidden
from marketplace.selectors.figures import MarketFigures, market_figures
from marketplace.visibility import SENTENCES
from providers.models import Application, Tier
from providers.selectors import (
    application_proposal,
    business_days,
    gpus_in_review,
    machines_short,
    machines_waiting,
    review_queue,
)
from providers.selectors.applications import PROMISE_BUSINESS_DAYS
from reliability.selectors import machines_offline

QUEUE_SHOWN = 8
NEWS_OLD = timedelta(minutes=10)
"""News travels within seconds; what is still open after its third retry wants a look."""


@dataclass(frozen=True)
class Waiting:
    """One application in the queue; ``late`` when the promise of one to three business days is broken."""

    application: Application
    tier: str
    gpus: int
    days: int

    @property
    def late(self) -> bool:
        return self.days > PROMISE_BUSINESS_DAYS


@dataclass(frozen=True)
class Duty:
    """One kind of thing that may need doing. ``number`` null: not known. Shown to whoever may see ``permission``."""

    about: str
    number: int | None
    detail: str | Promise
    url: str
    permission: str
    urgent: bool = False

    @property
    def clear(self) -> bool:
        return self.number == 0


@dataclass(frozen=True)
class Today:
    queue: list[Waiting]
    queue_number: int
    duties: list[Duty]
    figures: MarketFigures
    jobs: dict[str, int]
    promise_days: int = PROMISE_BUSINESS_DAYS


def operations_today(user: User, *, now: datetime) -> Today:
    """What this member of staff may see of it."""
    may_review = user.has_perm("providers.view_application")
    queue = list(review_queue().prefetch_related("groups")[:QUEUE_SHOWN]) if may_review else []
    return Today(
        queue=[_waiting(application, now) for application in queue],
        queue_number=review_queue().count() if len(queue) == QUEUE_SHOWN else len(queue),
        duties=[duty for duty in _duties(now) if user.has_perm(duty.permission)],
        figures=market_figures(),
        jobs=jobs_open(),
    )


def _waiting(application: Application, now: datetime) -> Waiting:
    return Waiting(
        application=application,
        tier=str(Tier(application_proposal(application).tier).label),
        gpus=sum(group.quantity or 0 for group in application.groups.all()),
        days=business_days(application.submitted_at, now) if application.submitted_at else 0,
    )


def _list(name: str, **query: str) -> str:
    return reverse(f"admin:{name}_changelist") + (f"?{urlencode(query)}" if query else "")


def _duties(now: datetime) -> Iterator[Duty]:
    yield from _fleet()
    yield from _money(money_waiting())
    yield _books()
    yield _news(now)


def _fleet() -> Iterator[Duty]:
    machines, hidden = machines_waiting(), listings_hidden()
    permission = "providers.view_machine"
    quarantined = _list("providers_machine", status__exact="quarantined")
    yield Duty(_("Machines in quarantine"), machines.get("quarantined", 0), "", quarantined, permission)
    unconfirmed = _list("providers_machine", status__exact="pending_confirmation")
    detail = _("Their owners have to say that they are theirs.")
    yield Duty(_("Machines not confirmed"), machines.get("pending_confirmation", 0), detail, unconfirmed, permission)
    offline = _list("reliability_machinehealth", state__exact="offline")
    yield Duty(_("Machines offline"), machines_offline(), "", offline, "reliability.view_machinehealth")
    review = _list("providers_gpu", status__exact="needs_review")
    held, asked = gpus_in_review()
    detail = ngettext("%(asked)d owner asks to add one.", "%(asked)d owners ask to add one.", asked) % {"asked": asked}
    detail = detail if asked else _("They differ from what was applied for.")
    yield Duty(_("GPUs to accept"), held, detail, review, permission)
    short = _list("providers_machine", short="open")
    detail = _("Much less memory or network than was declared.")
    yield Duty(_("Machines below their application"), machines_short().count(), detail, short, permission)
    verdicts = _list("benchmarks_verdict", in_review__exact="1")
    detail = _("A figure was too good to be true.")
    yield Duty(_("Benchmarks to look at"), verdicts_in_review(), detail, verdicts, "benchmarks.view_verdict")
    reason = next(iter(hidden), "")
    listings = _list("marketplace_listing", visible__exact="0")
    why = SENTENCES.get(reason, reason)
    yield Duty(_("Listings kept out of the market"), sum(hidden.values()), why, listings, "marketplace.view_listing")


def _money(money: MoneyWaiting) -> Iterator[Duty]:
    permission = "billing.view_payout"
    release = _list("billing_payout", status__exact="awaiting_release")
    amount = _amount(money.release.number, money.release.amount_micro)
    yield Duty(_("Payouts to release"), money.release.number, amount, release, permission)
    stuck = _list("billing_payout", status__exact="blocked")
    amount = _amount(money.stuck.number, money.stuck.amount_micro)
    yield Duty(_("Payouts that are stuck"), money.stuck.number, amount, stuck, permission, urgent=True)
    disputes = _list("marketplace_dispute", status__exact="open")
    detail = _("What they are about is frozen until you decide.")
    yield Duty(_("Disputes to decide"), disputes_open(), detail, disputes, "marketplace.view_dispute")
    suspense = _list("billing_deposit", state__exact="suspense")
    amount = _amount(money.suspense.number, money.suspense.amount_micro)
    yield Duty(_("Deposits of nobody"), money.suspense.number, amount, suspense, "billing.view_deposit")
    claims = _list("billing_depositclaim", state__exact="open", kind__exact="evidence")
    yield Duty(_("Claims on deposits"), money.claims, _("Two people decide."), claims, "billing.view_depositclaim")
    yield from _bank(money)
    adjustments = _list("billing_adjustment", state__exact="proposed")
    detail = _("One person has proposed them.")
    yield Duty(_("Adjustments to confirm"), money.adjustments, detail, adjustments, "billing.view_adjustment")
    switch = _list("billing_payoutswitch")
    frozen = int(bool(money.frozen))
    yield Duty(_("Payouts frozen"), frozen, money.frozen, switch, "billing.view_payoutswitch", urgent=True)


def _bank(money: MoneyWaiting) -> Iterator[Duty]:
    suspense, decisions = _list("billing_bankentry"), _list("billing_bankdecision", confirmed_at__isempty="1")
    yield Duty(_("Bank entries of nobody"), money.bank_suspense, "", suspense, "billing.view_bankentry", urgent=True)
    detail = _("Files, euro rates and decisions.")
    yield Duty(_("Bank: a second person"), money.bank_second, detail, decisions, "billing.view_bankdecision")
    detail = _("Enter and confirm today's rate, once banks are open.")
    yield Duty(
        _("Runs that wait for a euro rate"), money.bank_rate, detail, _list("billing_eurrate"), "billing.view_eurrate"
    )


def _amount(number: int, amount_micro: int) -> str:
    return f"{format_usdc(amount_micro)} USDC" if number else ""


def _books() -> Duty:
    last = invariants.result_last()
    about, url = _("Broken promises of the books"), _list("billing_account")
    if last is None:
        return Duty(about, None, _("Not checked in the last hour."), url, "billing.view_account")
    first = last.violations[0] if last.violations else None
    detail = f"{first.invariant}: {first.subject}: {first.message}" if first else ""
    return Duty(about, len(last.violations), detail, url, "billing.view_account", urgent=True)


def _news(now: datetime) -> Duty:
    number, oldest = news.open_before(now - NEWS_OLD)
    detail = ""
    if oldest is not None:
        minutes = int((now - oldest).total_seconds() // 60)
        detail = ngettext("The oldest waits %(minutes)d minute.", "The oldest waits %(minutes)d minutes.", minutes)
        detail %= {"minutes": minutes}
    url = reverse("admin:index")
    return Duty(_("News not delivered"), number, detail, url, "marketplace.view_listing", urgent=True)
