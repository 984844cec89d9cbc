"""What follows from how an attempt ended: job status, retry, charge, score. Pure; agent_protocol.reasons is the one table."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext as translate
from django.utils.translation import gettext_lazy as _

from agent_protocol.reasons import COMPLETED, STOP_REASONS, Reason, reason_get

JOB_REASONS: dict[str, str | Promise] = {
    "no_capacity": _("No machine that fits became free within 24 hours."),
    "no_funds": _("The balance did not cover an hour of the job within 24 hours."),
    "no_limit_room": _("Your spend limit left no room for an hour of the job within 24 hours."),
    "rate_changed": _("The price of the chosen listing rose above the price you saw; nothing was started."),
    "listing_gone": _("The chosen listing is no longer offered."),
    "cancelled": _("You cancelled the job."),
}
"""Reasons of a job that never got an attempt, beside the attempts' reasons."""

WAITING: dict[str, str | Promise] = {
    "": _("Waiting for a machine."),
    "capacity": _("Nothing that fits is free right now; the queue is tried every few seconds."),
    "funds": _("Waiting for funds: the balance does not cover an hour of this job."),
    "limit": _("Waiting for your spend limit: it leaves no room for an hour of this job now."),
}


def reason_sentence(code: str) -> str:
    """The sentence of an agent_protocol reason in the reader's language; an unknown code reads as ``unknown``."""
    return translate(reason_get(code).sentence)


def reason_words(code: str) -> Promise:
    """The same, translated only when it is shown: for a text whose reader is not known yet."""
    return _(reason_get(code).sentence)


ATTEMPTS_MAX = 3
LIMIT_SLACK_SECONDS = 5
"""Agent and engine each round seconds down and look every second or two; a stop this early is still the limit's."""
LOST_REASONS = frozenset({"offline", "lease_expired", "orphaned", "platform_outage"})
"""The machine went away, or we did: nobody knows how far the job got. Every other bad end is a failure that was seen."""


@dataclass(frozen=True)
class Outcome:
    """``job``: queued | succeeded | failed | cancelled | lost. ``credited``: the provider's fault, give the time back."""

    job: str
    reason: Reason
    credited: bool


def reason_judge(
    *, reported: str, exit_code: int | None, ordered: str | None, elapsed_s: int | None, limit_s: int
) -> str:
    """The reason we believe, given what the agent says and what we ordered.

    Exit 0 alone is never completion (a job that traps TERM exits 0 too): the agent must say ``completed``, with exit 0.
    An agent cannot blame us or the customer for a stop that nobody ordered.
    """
    if reported == COMPLETED and exit_code == 0:
        return COMPLETED
    if ordered:
        return ordered
    if reported == COMPLETED:
        return "unknown"
    if reported == "platform_outage":
        return "unknown"
    if reported == "time_limit":
        return reported if elapsed_s is not None and elapsed_s + LIMIT_SLACK_SECONDS >= limit_s else "unknown"
    if reported in STOP_REASONS and reported != "lease_expired":
        return "unknown"
    return reported


def decide(*, reason: str, cancel_requested: bool, tries: int, max_attempts: int, never_accepted: bool) -> Outcome:
    """What becomes of the job. ``tries`` counts attempts that an agent took up, this one included.

    An offer that was never taken up costs the customer no attempt: the job goes back to the queue.
    """
    found = reason_get(reason)
    credited = found.credited and not never_accepted
    if found.code == COMPLETED:
        return Outcome("succeeded", found, credited=False)
    if cancel_requested:
        return Outcome("cancelled", found, credited)
    if never_accepted and found.retried:
        return Outcome("queued", found, credited=False)
    if found.retried and tries < min(max_attempts, ATTEMPTS_MAX):
        return Outcome("queued", found, credited)
    if found.code == "cancelled":
        return Outcome("cancelled", found, credited)
    return Outcome("lost" if found.code in LOST_REASONS else "failed", found, credited)
