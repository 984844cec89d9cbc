"""The laws of adjustments and of the audit trail: no hand moves money alone, and nobody rewrites who did what."""

from __future__ import annotations

from django.db.migrations import RunSQL

from core import laws

# Whoever writes: it begins as a proposal about an account that may be adjusted; it ends once; neither of the two people is a
# member of the party whose money it is; and what is posted is exactly the transfer that its id names.
ADJUSTMENT = RunSQL(
    """
    CREATE FUNCTION billing_adjustment_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        about record;
    BEGIN
        SELECT kind, asset, owner_id INTO about FROM billing_account WHERE id = NEW.account_id;
        IF TG_OP = 'INSERT' THEN
            IF NEW.state <> 'proposed' THEN
                RAISE EXCEPTION 'an adjustment begins as a proposal' USING ERRCODE = 'integrity_constraint_violation';
            END IF;
            IF about.owner_id IS NULL OR about.asset <> 'USDC' OR about.kind NOT IN ('customer', 'provider_payable') THEN
                RAISE EXCEPTION 'account % is % in %: it is not adjusted by hand', NEW.account_id, about.kind, about.asset
                    USING ERRCODE = 'integrity_constraint_violation';
            END IF;
            RETURN NEW;
        END IF;
        IF OLD.state <> 'proposed' THEN
            RAISE EXCEPTION 'adjustment % is % and stays so', OLD.id, OLD.state
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.state = 'posted' AND EXISTS (
            SELECT 1 FROM accounts_partymember
            WHERE party_id = about.owner_id AND user_id IN (NEW.proposed_by_id, NEW.decided_by_id)
        ) THEN
            RAISE EXCEPTION 'adjustment %: nobody adjusts their own balance', OLD.id
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.state = 'posted' AND NOT EXISTS (
            SELECT 1 FROM billing_transfer t JOIN billing_posting p ON p.transfer_id = t.id
            WHERE t.id = NEW.transfer_id AND t.kind = 'adjustment' AND t.source = 'adjustment:' || NEW.id
                AND p.account_id = NEW.account_id AND p.amount = NEW.amount_micro
        ) THEN
            RAISE EXCEPTION 'adjustment %: its transfer does not move % on its account', OLD.id, NEW.amount_micro
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_adjustment_law BEFORE INSERT OR UPDATE ON billing_adjustment
        FOR EACH ROW EXECUTE FUNCTION billing_adjustment_law();
    """,
    "DROP TRIGGER billing_adjustment_law ON billing_adjustment; DROP FUNCTION billing_adjustment_law();",
)

# At commit: the transfer is written first, then its adjustment names it. Other kinds pay the WHEN and nothing else.
TRANSFER = RunSQL(
    """
    CREATE FUNCTION billing_transfer_adjusted_law() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT EXISTS (SELECT 1 FROM billing_adjustment WHERE transfer_id = NEW.id AND state = 'posted') THEN
            RAISE EXCEPTION 'transfer % is an adjustment that two people have not agreed on', NEW.source
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER billing_transfer_adjusted_law AFTER INSERT ON billing_transfer
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.kind = 'adjustment')
        EXECUTE FUNCTION billing_transfer_adjusted_law();
    """,
    "DROP TRIGGER billing_transfer_adjusted_law ON billing_transfer; DROP FUNCTION billing_transfer_adjusted_law();",
)

OPERATIONS = [
    ADJUSTMENT,
    TRANSFER,
    laws.frozen_columns(
        "billing_adjustment", ["account_id", "amount_micro", "reason", "evidence", "proposed_by_id", "created_at"]
    ),
    laws.append_only("billing_auditentry"),
]
