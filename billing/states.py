"""Allowed moves of what billing owns. Each status moves through ``Moves.move`` and nowhere else."""

from __future__ import annotations

from core.states import Moves

PAYOUT_RUN = Moves(
    "status",
    {
        # planning: payouts are being reserved; a crash resumes here.
        "planning": {"planned", "paused"},
        # planned: everything is reserved, pre-flight and release come next.
        "planned": {"paused", "released", "finished"},
        # paused: pre-flight failed; ``pause_reason`` says why, the sweeper tries again.
        "paused": {"planned", "released", "finished"},
        "released": {"finished"},
        "finished": set(),
    },
)

PAYOUT = Moves(
    "status",
    {
        # Reserved, waits for two people (or the demo's policy).
        # Submitted: the books are older than the chain (a restore), and a person took over what is paid there.
        "awaiting_release": {"ready", "cancelled", "submitted"},
        # May be signed. A new attempt starts only from here.
        "ready": {"submitted", "blocked", "cancelled"},
        # Something stands in the way that a later look may find gone; ``note`` says what.
        "blocked": {"ready", "cancelled", "submitted"},
        # One signed transaction may land: nothing but the chain decides now.
        "submitted": {"settled", "ready", "unknown"},
        # Neither landed nor provably expired: alert; it settles if it turns up. It becomes ready by a person's word on proof
        # only (payout_resolve), never by itself.
        "unknown": {"settled", "ready"},
        "settled": set(),
        "cancelled": set(),
    },
)

ATTEMPT = Moves(
    "state",
    {
        "signed": {"sent", "landed", "failed", "expired", "unknown"},
        "sent": {"landed", "failed", "expired", "unknown"},
        # The last two by payout_resolve only.
        "unknown": {"landed", "failed", "expired"},
        # Finalized without error, and the recipient has the amount.
        "landed": {"settled"},
        "settled": set(),
        # In a finalized block, with an error: it moved nothing and can never move anything.
        "failed": set(),
        # Proven: it can never land.
        "expired": set(),
    },
)

ATTEMPT_LIVE = ("signed", "sent", "unknown", "landed")
"""While an attempt is in one of these, no second one exists and the payout cannot be cancelled (the database sees to it)."""

BANK_LINE = Moves(
    "state",
    {
        # In a file that the bank may have. Only a booked debit settles it; what the bank says beforehand does not.
        "written": {"accepted", "settled", "rejected", "absent"},
        # The bank said yes (pain.002). It may still say no.
        "accepted": {"settled", "rejected", "absent"},
        "settled": {"returned"},
        # The bank said no: the payout may get a new line in a new file.
        "rejected": set(),
        # Two people saw that the bank never had it, or never will pay it.
        "absent": set(),
        # Paid, and come back: the money is payable again by a transfer of its own.
        "returned": set(),
    },
)

BANK_LINE_LIVE = ("written", "accepted")
"""While a line is in one of these the bank may pay it: its payout has no second one and cannot be cancelled."""

BANK_ENTRY = Moves("state", {"suspense": {"matched", "resolved"}, "matched": set(), "resolved": set()})

DEPOSIT = Moves(
    "state",
    {
        # Nobody's until somebody proves that it is theirs (DEPOSIT_CLAIM).
        "suspense": {"credited"},
        "credited": set(),
    },
)

DEPOSIT_CLAIM = Moves("state", {"open": {"credited", "declined"}, "credited": set(), "declined": set()})

ADJUSTMENT = Moves("state", {"proposed": {"posted", "refused"}, "posted": set(), "refused": set()})

HOLD = Moves("state", {"open": {"captured", "released"}, "captured": set(), "released": set()})

DESTINATION = Moves("state", {"active": {"replaced"}, "replaced": set()})
