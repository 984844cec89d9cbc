"""What must always be true of the books, as queries that find what is not. Each yields (subject, sentence)."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection

from billing.selectors.bank_integrity import bank_drifted

Finding = tuple[str, str]

_UNBALANCED = """
SELECT t.source, a.asset, sum(p.amount) FROM billing_posting p
JOIN billing_account a ON a.id = p.account_id JOIN billing_transfer t ON t.id = p.transfer_id
GROUP BY t.source, a.asset HAVING sum(p.amount) <> 0
"""
_BALANCES = """
SELECT a.id, a.kind, a.balance, coalesce(p.total, 0) FROM billing_account a
LEFT JOIN (SELECT account_id, sum(amount) AS total FROM billing_posting GROUP BY account_id) p ON p.account_id = a.id
WHERE a.live AND a.balance <> coalesce(p.total, 0)
"""
_HELD = """
SELECT a.id, a.kind, a.held, coalesce(h.total, 0) FROM billing_account a
LEFT JOIN (SELECT account_id, sum(amount_micro) AS total FROM billing_hold WHERE state = 'open' GROUP BY account_id) h
    ON h.account_id = a.id
WHERE a.held <> coalesce(h.total, 0)
"""
# A payout's money is in flight exactly while it is open, and each of its two transfers moves exactly its amount; a cancel gives
# back to every account what the reserve took from it.
_PAYOUTS = """
SELECT p.id, p.amount_micro, p.status, r.total, c.total FROM billing_payout p
LEFT JOIN LATERAL (
    SELECT sum(x.amount) AS total FROM billing_posting x JOIN billing_account a ON a.id = x.account_id
    WHERE x.transfer_id = p.reserve_transfer_id AND a.kind = 'payout_in_flight' AND a.owner_id = p.party_id) r ON true
LEFT JOIN LATERAL (
    SELECT sum(x.amount) AS total FROM billing_posting x JOIN billing_account a ON a.id = x.account_id
    WHERE x.transfer_id = p.closing_transfer_id AND a.kind = 'payout_in_flight' AND a.owner_id = p.party_id) c ON true
WHERE r.total IS DISTINCT FROM p.amount_micro
   OR EXISTS (SELECT 1 FROM billing_posting x WHERE p.status = 'cancelled'
              AND x.transfer_id IN (p.reserve_transfer_id, p.closing_transfer_id)
              GROUP BY x.account_id HAVING sum(x.amount) <> 0)
   OR (p.closing_transfer_id IS NOT NULL AND c.total IS DISTINCT FROM -p.amount_micro)
"""
_IN_FLIGHT = """
SELECT a.owner_id, a.balance, coalesce(p.total, 0) FROM billing_account a
LEFT JOIN (SELECT party_id, sum(amount_micro) AS total FROM billing_payout
           WHERE status NOT IN ('settled', 'cancelled') GROUP BY party_id) p ON p.party_id = a.owner_id
WHERE a.kind = 'payout_in_flight' AND a.balance <> coalesce(p.total, 0)
"""
_LINES = """
SELECT t.source, coalesce(l.total, 0), coalesce(p.total, 0) FROM billing_transfer t
LEFT JOIN (SELECT transfer_id, sum(amount_micro) AS total FROM billing_earningline GROUP BY transfer_id) l
    ON l.transfer_id = t.id
LEFT JOIN (SELECT x.transfer_id, sum(x.amount) AS total FROM billing_posting x JOIN billing_account a ON a.id = x.account_id
           WHERE a.kind IN ('provider_pending', 'provider_payable') GROUP BY x.transfer_id) p ON p.transfer_id = t.id
WHERE t.kind IN ('usage', 'service_credit', 'dispute') AND coalesce(l.total, 0) <> coalesce(p.total, 0)
"""
_PENDING = """
SELECT a.owner_id, coalesce(p.total, 0), coalesce(l.total, 0) FROM billing_account a
LEFT JOIN (SELECT account_id, sum(amount) AS total FROM billing_posting GROUP BY account_id) p ON p.account_id = a.id
LEFT JOIN (SELECT provider_id, sum(amount_micro) AS total FROM billing_earningline WHERE matured_at IS NULL
           GROUP BY provider_id) l ON l.provider_id = a.owner_id
WHERE a.kind = 'provider_pending' AND coalesce(p.total, 0) <> coalesce(l.total, 0)
"""
_CHECKPOINTS = """
SELECT a.kind, a.asset, c.posting_id, c.balance, coalesce(p.total, 0) FROM billing_account a
CROSS JOIN LATERAL (SELECT posting_id, balance FROM billing_balancecheckpoint WHERE account_id = a.id
    ORDER BY posting_id DESC LIMIT 1) c
CROSS JOIN LATERAL (SELECT sum(amount) AS total FROM billing_posting WHERE account_id = a.id AND id <= c.posting_id) p
WHERE c.balance <> coalesce(p.total, 0)
"""
# What was claimed went through suspense: one transfer put it there, another one took all of it to its claimant.
_DEPOSITS = """
SELECT d.signature, d.amount_micro, p.total, c.total FROM billing_deposit d
LEFT JOIN LATERAL (
    SELECT sum(x.amount) AS total FROM billing_posting x JOIN billing_account a ON a.id = x.account_id
    WHERE x.transfer_id = d.transfer_id AND x.amount > 0 AND a.asset = 'USDC'
      AND CASE WHEN d.party_id IS NULL OR d.claim_transfer_id IS NOT NULL THEN a.kind = 'suspense'
          ELSE a.owner_id = d.party_id END) p ON true
LEFT JOIN LATERAL (
    SELECT sum(x.amount) AS total FROM billing_posting x JOIN billing_account a ON a.id = x.account_id
    WHERE x.transfer_id = d.claim_transfer_id AND x.amount > 0 AND a.kind = 'customer' AND a.owner_id = d.party_id) c
    ON true
WHERE p.total IS DISTINCT FROM d.amount_micro
   OR (d.claim_transfer_id IS NOT NULL AND c.total IS DISTINCT FROM d.amount_micro)
"""
_SUSPENSE = """
SELECT coalesce((SELECT sum(p.amount) FROM billing_posting p JOIN billing_account a ON a.id = p.account_id
                 WHERE a.kind = 'suspense' AND a.asset = 'USDC'), 0),
       coalesce((SELECT sum(amount_micro) FROM billing_deposit WHERE state = 'suspense'), 0)
"""
# Both ways: no such transfer without an agreed adjustment, and none that moved anything else.
_ADJUSTMENTS = """
SELECT t.source, p.amount, j.amount_micro FROM billing_transfer t
LEFT JOIN billing_adjustment j ON j.transfer_id = t.id AND j.state = 'posted' AND j.proposed_by_id <> j.decided_by_id
LEFT JOIN billing_posting p ON p.transfer_id = t.id AND p.account_id = j.account_id
WHERE t.kind = 'adjustment' AND p.amount IS DISTINCT FROM j.amount_micro OR t.kind = 'adjustment' AND j.id IS NULL
"""
_SERIES = """
SELECT s.name, s.last, count(d.id), coalesce(min(d.number), 1), coalesce(max(d.number), 0) FROM billing_documentseries s
LEFT JOIN billing_document d ON d.series_id = s.name GROUP BY s.name, s.last
HAVING count(d.id) <> s.last OR coalesce(max(d.number), 0) <> s.last OR coalesce(min(d.number), 1) <> 1
"""


def _rows(sql: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def transfers_unbalanced() -> list[Finding]:
    return [(f"transfer {source}", f"{asset} adds up to {total}, not 0") for source, asset, total in _rows(_UNBALANCED)]


def balances_drifted() -> list[Finding]:
    return [
        (f"account {key} {kind}", f"balance {balance}, its postings add up to {total}")
        for key, kind, balance, total in _rows(_BALANCES)
    ]


def holds_drifted() -> list[Finding]:
    return [
        (f"account {key} {kind}", f"held {held}, its open holds add up to {total}")
        for key, kind, held, total in _rows(_HELD)
    ]


def payouts_drifted() -> list[Finding]:
    found = [
        (f"payout {key}", f"{status}, amount {amount}: reserved {reserved}, closed {closed}")
        for key, amount, status, reserved, closed in _rows(_PAYOUTS)
    ]
    return found + [
        (f"party {owner}", f"in flight {balance}, open payouts add up to {total}")
        for owner, balance, total in _rows(_IN_FLIGHT)
    ]


def lines_drifted() -> list[Finding]:
    found = [
        (f"transfer {source}", f"earning lines add up to {lines}, the provider's leg to {leg}")
        for source, lines, leg in _rows(_LINES)
    ]
    return found + [
        (f"party {owner}", f"pending {total}, unmatured lines add up to {lines}")
        for owner, total, lines in _rows(_PENDING)
    ]


def checkpoints_drifted() -> list[Finding]:
    return [
        (f"account {kind} {asset}", f"checkpoint {balance} up to posting {posting}, its postings add up to {total}")
        for kind, asset, posting, balance, total in _rows(_CHECKPOINTS)
    ]


def deposits_drifted() -> list[Finding]:
    found = [
        (f"deposit {signature}", f"arrived {amount}, posted {total}, given to its claimant {claimed}")
        for signature, amount, total, claimed in _rows(_DEPOSITS)
    ]
    ((books, waiting),) = _rows(_SUSPENSE)
    return found + ([("suspense", f"the books say {books}, its deposits {waiting}")] if books != waiting else [])


def adjustments_drifted() -> list[Finding]:
    return [
        (f"transfer {source}", f"moved {moved}, two people agreed on {agreed}")
        for source, moved, agreed in _rows(_ADJUSTMENTS)
    ]


def series_broken() -> list[Finding]:
    return [
        (f"series {name}", f"stands at {last}, but has {count} documents from {first} to {highest}")
        for name, last, count, first, highest in _rows(_SERIES)
    ]


CHECKS: dict[str, Callable[[], list[Finding]]] = {
    "billing.zero_sum": transfers_unbalanced,
    "billing.live_balances": balances_drifted,
    "billing.holds": holds_drifted,
    "billing.payouts": payouts_drifted,
    "billing.earning_lines": lines_drifted,
    "billing.checkpoints": checkpoints_drifted,
    "billing.deposits": deposits_drifted,
    "billing.adjustments": adjustments_drifted,
    "billing.bank": bank_drifted,
}


def drift_first() -> str | None:
    """One sentence about the first thing that is wrong with the books, or None: what stops payouts."""
    for name, check in CHECKS.items():
        for subject, sentence in check():
            return f"{name}: {subject}: {sentence}"
    return None
