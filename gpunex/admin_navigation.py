"""The admin's sidebar, in the order in which an operator works: what waits first, then fleet, jobs, money, people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Entry = tuple[str | Promise, str, str]
"""Words, icon (Material Symbols), ``app.model``."""

GROUPS: tuple[tuple[str | Promise, tuple[Entry, ...]], ...] = (
    (
        _("Review"),
        (
            (_("Applications"), "inbox", "providers.application"),
            (_("Benchmark verdicts"), "speed", "benchmarks.verdict"),
        ),
    ),
    (
        _("Fleet"),
        (
            (_("Providers"), "storefront", "providers.provider"),
            (_("Machines"), "dns", "providers.machine"),
            (_("GPUs"), "memory", "providers.gpu"),
            (_("Machine health"), "monitor_heart", "reliability.machinehealth"),
            (_("Listings"), "sell", "marketplace.listing"),
        ),
    ),
    (
        _("Jobs"),
        (
            (_("Jobs"), "play_circle", "marketplace.job"),
            (_("Attempts"), "replay", "marketplace.attempt"),
            (_("Rentals"), "receipt_long", "marketplace.rental"),
            (_("Disputes"), "gavel", "marketplace.dispute"),
        ),
    ),
    (
        _("Money"),
        (
            (_("Payout runs"), "event_repeat", "billing.payoutrun"),
            (_("Payouts"), "payments", "billing.payout"),
            (_("Deposits"), "savings", "billing.deposit"),
            (_("Claims on deposits"), "front_hand", "billing.depositclaim"),
            (_("Payments in other money"), "currency_exchange", "billing.foreignpayment"),
            (_("Receipts and statements"), "receipt_long", "billing.document"),
            (_("Ledger accounts"), "account_balance", "billing.account"),
            (_("Transfers"), "swap_horiz", "billing.transfer"),
            (_("Holds"), "lock_clock", "billing.hold"),
            (_("Spend limits"), "price_check", "billing.spendlimit"),
            (_("Adjustments"), "balance", "billing.adjustment"),
            (_("Audit trail"), "history", "billing.auditentry"),
            (_("Payout destinations"), "wallet", "billing.destination"),
            (_("Payout switches"), "toggle_on", "billing.payoutswitch"),
            (_("Payout freezes"), "ac_unit", "billing.destinationfreeze"),
            (_("Payout holds"), "front_hand", "billing.payouthold"),
            (_("Chain matches"), "compare_arrows", "billing.chainmatch"),
        ),
    ),
    (
        _("Bank"),
        (
            (_("Payment files"), "description", "billing.bankfile"),
            (_("Euro rates"), "euro", "billing.eurrate"),
            (_("Bank messages"), "mark_email_read", "billing.bankmessage"),
            (_("Bank entries and suspense"), "rule", "billing.bankentry"),
            (_("Decisions of two"), "group", "billing.bankdecision"),
            (_("Bank lines"), "list_alt", "billing.bankline"),
            (_("Who saw bank data"), "visibility", "billing.disclosure"),
        ),
    ),
    (
        _("People"),
        (
            (_("Users"), "person", "accounts.user"),
            (_("Parties"), "groups", "accounts.party"),
            (_("Notifications"), "notifications", "accounts.notification"),
            (_("Mails"), "mail", "accounts.mail"),
        ),
    ),
)
DETAILS: tuple[tuple[str | Promise, tuple[Entry, ...]], ...] = (
    (
        _("Evidence"),
        (
            (_("Scores"), "grade", "reliability.score"),
            (_("State changes"), "timeline", "reliability.flip"),
            (_("Online intervals"), "schedule", "reliability.onlineinterval"),
            (_("Incidents"), "report", "reliability.incident"),
            (_("Outcomes"), "task_alt", "reliability.outcome"),
            (_("Platform outages"), "cloud_off", "reliability.platformoutage"),
            (_("Benchmark runs"), "labs", "benchmarks.run"),
            (_("Frozen earnings"), "ac_unit", "billing.earningfreeze"),
        ),
    ),
    (
        _("Rules"),
        (
            (_("GPU models"), "category", "providers.gpumodel"),
            (_("Enrolment tokens"), "key", "providers.enrolmenttoken"),
            (_("Benchmark suites"), "science", "benchmarks.suite"),
            (_("Thresholds"), "vertical_align_bottom", "benchmarks.threshold"),
            (_("Rates"), "price_change", "marketplace.rate"),
            (_("Market prices"), "query_stats", "marketplace.marketprice"),
            (_("Policies"), "rule", "billing.policyrow"),
            (_("Fee rates"), "percent", "billing.feerate"),
        ),
    ),
)
"""Folded until somebody wants them."""


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Unfold's sidebar; who may not see a model does not see its entry."""
    home = {"title": _("Today"), "icon": "today", "link": reverse("admin:index"), "active": _is_home}
    groups: list[dict[str, Any]] = [{"items": [home]}]
    for folded, source in ((False, GROUPS), (True, DETAILS)):
        for title, entries in source:
            items = [_item(entry) for entry in entries]
            groups.append({"title": title, "separator": folded, "collapsible": folded, "items": items})
    return groups


def _is_home(request: HttpRequest) -> bool:
    return request.path == reverse("admin:index")


def _item(entry: Entry) -> dict[str, Any]:
    title, icon, label = entry
    app, model = label.split(".")
    link = reverse(f"admin:{app}_{model}_changelist")
    return {"title": title, "icon": icon, "link": link, "permission": _may(f"{app}.view_{model}")}


def _may(permission: str) -> Callable[[HttpRequest], bool]:
    return lambda request: bool(request.user.has_perm(permission))  # type: ignore[union-attr]
