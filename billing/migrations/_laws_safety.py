"""The laws of letting money go: two people, no freeze or hold, and after a restore nothing before the chain is matched."""

from __future__ import annotations

from django.db.migrations import RunSQL

from core import laws

# Automatic release is a policy that only demo mode can set. What a restore took over from the chain goes another way (submitted).
RELEASE = RunSQL(
    """
    CREATE FUNCTION billing_payout_release_law() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF (SELECT count(DISTINCT a.approver_id) FROM billing_payoutapproval a
            WHERE a.payout_id = NEW.id AND NOT EXISTS (
                SELECT 1 FROM accounts_partymember m WHERE m.user_id = a.approver_id AND m.party_id = NEW.party_id)) < 2
           AND NOT EXISTS (SELECT 1 FROM billing_policyrow WHERE name = 'automatic_release' AND value = 1) THEN
            RAISE EXCEPTION 'payout % is released by two people who are not its payee', NEW.id
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.released_at IS NULL THEN
            RAISE EXCEPTION 'payout % is released at some time', NEW.id USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_payout_release_law BEFORE UPDATE ON billing_payout
        FOR EACH ROW WHEN (OLD.status = 'awaiting_release' AND NEW.status = 'ready')
        EXECUTE FUNCTION billing_payout_release_law();
    """,
    "DROP TRIGGER billing_payout_release_law ON billing_payout; DROP FUNCTION billing_payout_release_law();",
)

# Whoever freezes or holds a party locks its row; who comes second sees the other's commit. What a restore found on chain is a
# fact and no decision: it comes as landed.
NOT_HELD = RunSQL(
    """
    CREATE FUNCTION billing_payee_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        payee uuid;
    BEGIN
        SELECT party_id INTO payee FROM billing_payout WHERE id = NEW.payout_id;
        PERFORM 1 FROM accounts_party WHERE id = payee FOR SHARE;
        IF EXISTS (SELECT 1 FROM billing_destinationfreeze WHERE party_id = payee AND cleared_at IS NULL)
           OR EXISTS (SELECT 1 FROM billing_payouthold WHERE party_id = payee AND released_at IS NULL) THEN
            RAISE EXCEPTION 'payout % is not paid: its payee is frozen or held', NEW.payout_id
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_payoutattempt_payee_law BEFORE INSERT ON billing_payoutattempt
        FOR EACH ROW WHEN (NEW.state <> 'landed') EXECUTE FUNCTION billing_payee_law();
    CREATE TRIGGER billing_bankline_payee_law BEFORE INSERT ON billing_bankline
        FOR EACH ROW EXECUTE FUNCTION billing_payee_law();
    """,
    "DROP TRIGGER billing_payoutattempt_payee_law ON billing_payoutattempt;"
    " DROP TRIGGER billing_bankline_payee_law ON billing_bankline; DROP FUNCTION billing_payee_law();",
)

THAW = RunSQL(
    """
    CREATE FUNCTION billing_payoutswitch_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        restored timestamptz;
    BEGIN
        SELECT max(at) INTO restored FROM billing_payoutswitch WHERE billing_payoutswitch.restored AND frozen AND id > coalesce(
            (SELECT max(id) FROM billing_payoutswitch WHERE NOT frozen), 0);
        IF restored IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM billing_chainmatch WHERE created_at > restored AND open = 0
        ) THEN
            RAISE EXCEPTION 'payouts stay frozen: the books were restored and the chain is not matched with them'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_payoutswitch_law BEFORE INSERT ON billing_payoutswitch
        FOR EACH ROW WHEN (NOT NEW.frozen) EXECUTE FUNCTION billing_payoutswitch_law();
    """,
    "DROP TRIGGER billing_payoutswitch_law ON billing_payoutswitch; DROP FUNCTION billing_payoutswitch_law();",
)

OPERATIONS = [
    laws.frozen_columns("billing_destinationfreeze", ["party_id", "destination_id", "created_at"]),
    laws.written_once("billing_destinationfreeze", {"cleared_at": ["cleared_by_id", "reason"]}),
    laws.frozen_columns("billing_payouthold", ["party_id", "source", "reason", "created_at"]),
    laws.written_once("billing_payouthold", {"released_at": []}),
    laws.append_only("billing_chainmatch"),
    RELEASE,
    NOT_HELD,
    THAW,
]
