"""The laws of payouts on every rail, as triggers: what was decided stays, and nothing is cancelled that may still be paid."""

from __future__ import annotations

from django.db.migrations import RunSQL

from core import laws

# Whoever signs an attempt or writes a bank line locks the payout's row, as a cancel does: they exclude each other.
PAYOUT = RunSQL(
    """
    CREATE FUNCTION billing_payout_law() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF OLD.status IN ('settled', 'cancelled') THEN
            RAISE EXCEPTION 'payout % is % and stays so', OLD.id, OLD.status
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.status = 'cancelled' AND EXISTS (
            SELECT 1 FROM billing_payoutattempt
            WHERE payout_id = OLD.id AND state IN ('signed', 'sent', 'unknown', 'landed')
        ) THEN
            RAISE EXCEPTION 'payout % cannot be cancelled: a signed transaction may still land', OLD.id
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.status = 'cancelled' AND EXISTS (
            SELECT 1 FROM billing_bankline WHERE payout_id = OLD.id AND state IN ('written', 'accepted', 'settled')
        ) THEN
            RAISE EXCEPTION 'payout % cannot be cancelled: the bank may still pay it', OLD.id
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.status = 'settled' AND NEW.rail = 'bank' AND NOT EXISTS (
            SELECT 1 FROM billing_bankline WHERE payout_id = OLD.id AND state = 'settled'
        ) THEN
            RAISE EXCEPTION 'payout % is not settled: no line of it is booked', OLD.id
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_payout_law BEFORE UPDATE ON billing_payout
        FOR EACH ROW EXECUTE FUNCTION billing_payout_law();
    """,
    "DROP TRIGGER billing_payout_law ON billing_payout; DROP FUNCTION billing_payout_law();",
)

ATTEMPT = RunSQL(
    """
    CREATE FUNCTION billing_payoutattempt_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        found record;
    BEGIN
        SELECT status, rail INTO found FROM billing_payout WHERE id = NEW.payout_id FOR SHARE;
        IF found.status NOT IN ('ready', 'submitted') OR found.rail <> 'usdc' THEN
            RAISE EXCEPTION 'payout % is % by %: nothing may be signed for it', NEW.payout_id, found.status, found.rail
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_payoutattempt_law BEFORE INSERT ON billing_payoutattempt
        FOR EACH ROW EXECUTE FUNCTION billing_payoutattempt_law();
    """,
    "DROP TRIGGER billing_payoutattempt_law ON billing_payoutattempt; DROP FUNCTION billing_payoutattempt_law();",
)

OPERATIONS = [
    laws.frozen_columns("billing_destination", ["party_id", "rail", "address", "scheme", "holder"]),
    laws.frozen_columns(
        "billing_payout",
        [
            *(
                "run_id",
                "party_id",
                "asset",
                "amount_micro",
                "rail",
                "destination_id",
                "address",
                "reserve_transfer_id",
            ),
            *("amount_cents", "currency", "eur_rate_id"),
        ],
    ),
    PAYOUT,
    laws.frozen_columns(
        "billing_payoutattempt",
        [
            *("payout_id", "n", "message", "raw", "signature", "blockhash", "last_valid_block_height", "context_slot"),
            "hot_wallet",
        ],
    ),
    ATTEMPT,
    laws.append_only("billing_payoutapproval"),
    laws.append_only("billing_payoutswitch"),
]
