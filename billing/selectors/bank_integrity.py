"""What must always be true of bank payouts, as queries that find what is not; part of ``billing.selectors.integrity``."""

from __future__ import annotations

from django.db import connection

# What a paid bank payout moved: exactly its cents out of the bank account and the trading account, its USDC into the latter.
_SETTLED = """
SELECT p.id, p.amount_cents, x.bank, x.euros, x.usdc FROM billing_payout p
LEFT JOIN LATERAL (
    SELECT sum(t.amount) FILTER (WHERE a.kind = 'bank' AND a.asset = p.currency) AS bank,
           sum(t.amount) FILTER (WHERE a.kind = 'trading' AND a.asset = p.currency) AS euros,
           sum(t.amount) FILTER (WHERE a.kind = 'trading' AND a.asset = p.asset) AS usdc
    FROM billing_posting t JOIN billing_account a ON a.id = t.account_id WHERE t.transfer_id = p.closing_transfer_id) x
    ON true
WHERE p.rail = 'bank' AND p.status = 'settled'
  AND (x.bank, x.euros, x.usdc) IS DISTINCT FROM (p.amount_cents, -p.amount_cents, p.amount_micro)
"""
# The cents are what the amount buys at the payout's own rate, and the amount is the least that buys them.
_RATE = """
SELECT p.id, p.amount_micro, p.amount_cents FROM billing_payout p JOIN billing_eurrate r ON r.id = p.eur_rate_id
WHERE p.rail = 'bank' AND (
    div(p.amount_micro::numeric * 100 * (10000 - r.margin_bps), r.reference_micro::numeric * 10000) <> p.amount_cents
    OR div((p.amount_micro - 1)::numeric * 100 * (10000 - r.margin_bps), r.reference_micro::numeric * 10000)
        >= p.amount_cents
    OR r.confirmed_at IS NULL)
"""
# A payout is at the bank exactly while it has one live line, and paid exactly when one of its lines was booked.
_LINES = """
SELECT p.id, p.status, x.live, x.paid FROM billing_payout p
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE state IN ('written', 'accepted')) AS live,
           count(*) FILTER (WHERE state IN ('settled', 'returned')) AS paid
    FROM billing_bankline WHERE payout_id = p.id) x ON true
WHERE p.rail = 'bank'
  AND (x.live, x.paid) IS DISTINCT FROM ((p.status = 'submitted')::int::bigint, (p.status = 'settled')::int::bigint)
"""
# A line is booked by exactly one entry, and returned by exactly one.
_ENTRIES = """
SELECT l.end_to_end_id, l.state, x.paid, x.returned FROM billing_bankline l
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE outcome = 'settled') AS paid, count(*) FILTER (WHERE outcome = 'returned') AS returned
    FROM billing_bankentry WHERE line_id = l.id) x ON true
WHERE (x.paid, x.returned) IS DISTINCT FROM
    ((l.state IN ('settled', 'returned'))::int::bigint, (l.state = 'returned')::int::bigint)
"""
# The bank account in the books is what its used entries say: debits less credits.
_BANK = """
SELECT coalesce(b.asset, e.currency), coalesce(b.total, 0), coalesce(e.total, 0)
FROM (SELECT a.asset, sum(p.amount) AS total FROM billing_posting p JOIN billing_account a ON a.id = p.account_id
      WHERE a.kind = 'bank' GROUP BY a.asset) b
FULL JOIN (SELECT currency, sum(CASE side WHEN 'debit' THEN amount_cents ELSE -amount_cents END) AS total
      FROM billing_bankentry WHERE transfer_id IS NOT NULL GROUP BY currency) e ON e.currency = b.asset
WHERE coalesce(b.total, 0) <> coalesce(e.total, 0)
"""


def bank_drifted() -> list[tuple[str, str]]:
    found = [
        (f"payout {key}", f"{cents} cents: bank {bank}, trading {euros} and {usdc} micro-USDC")
        for key, cents, bank, euros, usdc in _rows(_SETTLED)
    ]
    found += [(f"payout {key}", f"{micro} micro-USDC do not buy {cents} cents") for key, micro, cents in _rows(_RATE)]
    found += [
        (f"payout {key}", f"{status} with {live} live and {paid} booked lines")
        for key, status, live, paid in _rows(_LINES)
    ]
    found += [
        (f"bank line {name}", f"{state} with {paid} debits and {returned} returns")
        for name, state, paid, returned in _rows(_ENTRIES)
    ]
    return found + [
        (f"bank account in {asset}", f"the books say {books}, the entries {entries}")
        for asset, books, entries in _rows(_BANK)
    ]


def _rows(sql: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
