"""How a status looks and reads: one table for every app, so that the same word has the same colour everywhere."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

GOOD, BUSY, WARN, BAD, IDLE = "good", "busy", "warn", "bad", "idle"

STATUSES: dict[str, tuple[str, str | Promise]] = {
    # parties, providers
    "active": (GOOD, _("Active")),
    "suspended": (BAD, _("Suspended")),
    "closed": (IDLE, _("Closed")),
    # applications
    "draft": (IDLE, _("Draft")),
    "submitted": (BUSY, _("Submitted")),
    "in_review": (BUSY, _("In review")),
    "reviewing": (BUSY, _("In review")),
    "more_information": (WARN, _("Information requested")),
    "information_requested": (WARN, _("Information requested")),
    "approved": (GOOD, _("Approved")),
    "rejected": (BAD, _("Rejected")),
    "withdrawn": (IDLE, _("Withdrawn")),
    # machines and GPUs
    "pending_confirmation": (WARN, _("Confirm it")),
    "draining": (WARN, _("Draining")),
    "retired": (IDLE, _("Retired")),
    "quarantined": (BAD, _("Quarantined")),
    "revoked": (BAD, _("Revoked")),
    "needs_review": (WARN, _("Needs review")),
    "unavailable": (BAD, _("Unavailable")),
    "online": (GOOD, _("Online")),
    "suspect": (WARN, _("Not heard")),
    "offline": (BAD, _("Offline")),
    "never": (IDLE, _("Never seen")),
    "unknown": (IDLE, _("Unknown")),
    # benchmarks
    "requested": (BUSY, _("Requested")),
    "offered": (BUSY, _("Offered")),
    "running": (BUSY, _("Running")),
    "reported": (BUSY, _("Reported")),
    "verified": (GOOD, _("Verified")),
    "passed": (GOOD, _("Passed")),
    "failed": (BAD, _("Failed")),
    "expired": (IDLE, _("Expired")),
    # jobs and attempts
    "queued": (BUSY, _("Queued")),
    "pulling": (BUSY, _("Pulling image")),
    "starting": (BUSY, _("Starting")),
    "stopping": (WARN, _("Stopping")),
    "ended": (IDLE, _("Ended")),
    "succeeded": (GOOD, _("Succeeded")),
    "cancelled": (IDLE, _("Cancelled")),
    "lost": (BAD, _("Lost")),
    # money
    "proposed": (WARN, _("Waits for a second person")),
    "posted": (GOOD, _("Posted")),
    "pending": (BUSY, _("Pending")),
    "proven": (GOOD, _("Proven")),
    "unproven": (WARN, _("Not proven")),
    "replaced": (IDLE, _("Replaced")),
    "planning": (BUSY, _("Planning")),
    "paused": (WARN, _("Paused")),
    "finished": (GOOD, _("Finished")),
    "planned": (BUSY, _("Planned")),
    "awaiting_release": (BUSY, _("Waiting for release")),
    "ready": (BUSY, _("Ready to send")),
    "blocked": (WARN, _("Held up")),
    "returned": (WARN, _("Came back")),
    "reserved": (BUSY, _("Reserved")),
    "held": (WARN, _("Held")),
    "sending": (BUSY, _("Sending")),
    "signed": (BUSY, _("Signed")),
    "sent": (BUSY, _("Sent")),
    "landed": (BUSY, _("Landed")),
    "settled": (GOOD, _("Settled")),
    "paid": (GOOD, _("Paid")),
    "credited": (GOOD, _("Credited")),
    "written": (BUSY, _("In a file")),
    "accepted": (BUSY, _("Taken by the bank")),
    "absent": (WARN, _("Never had by the bank")),
    "matched": (GOOD, _("Matched")),
    "resolved": (GOOD, _("Decided by two")),
    "declined": (IDLE, _("Declined")),
    "suspense": (WARN, _("Being looked into")),
    "open": (BUSY, _("Open")),
    "granted": (GOOD, _("Granted")),
    "refused": (IDLE, _("Refused")),
    "captured": (GOOD, _("Captured")),
    "released": (IDLE, _("Released")),
}


def badge(status: str | None) -> tuple[str, str]:
    """(tone, word in the viewer's language). A status nobody listed shows as it is, in the neutral tone."""
    tone, word = STATUSES.get(status or "unknown", (IDLE, (status or "").replace("_", " ")))
    return tone, str(word)
