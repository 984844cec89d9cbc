"""The laws of disputes: what was said stays said, a decision is made once, and what it gives back is in the ledger."""

from __future__ import annotations

from django.db.migrations import RunSQL

from core import laws

REFUND_IS_POSTED = RunSQL(
    """
    CREATE FUNCTION marketplace_dispute_refund() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        given bigint;
    BEGIN
        SELECT posting.amount INTO given FROM billing_posting posting
        JOIN billing_account account ON account.id = posting.account_id
        JOIN billing_transfer transfer ON transfer.id = posting.transfer_id
        WHERE transfer.source = 'dispute:attempt:' || NEW.attempt_id AND transfer.kind = 'dispute'
            AND account.kind = 'customer' AND account.owner_id = NEW.customer_id;
        IF given IS DISTINCT FROM NEW.refund_micro THEN
            RAISE EXCEPTION 'dispute % says % were given back, the ledger %', NEW.id, NEW.refund_micro, given
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER marketplace_dispute_refund BEFORE UPDATE ON marketplace_dispute
        FOR EACH ROW WHEN (NEW.status = 'granted') EXECUTE FUNCTION marketplace_dispute_refund();
    CREATE FUNCTION marketplace_dispute_opens() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'a dispute begins open' USING ERRCODE = 'integrity_constraint_violation';
    END $$;
    CREATE TRIGGER marketplace_dispute_opens BEFORE INSERT ON marketplace_dispute
        FOR EACH ROW WHEN (NEW.status <> 'open') EXECUTE FUNCTION marketplace_dispute_opens();
    """,
    """
    DROP TRIGGER marketplace_dispute_opens ON marketplace_dispute; DROP FUNCTION marketplace_dispute_opens();
    DROP TRIGGER marketplace_dispute_refund ON marketplace_dispute; DROP FUNCTION marketplace_dispute_refund();
    """,
)

OPERATIONS = [
    REFUND_IS_POSTED,
    laws.frozen_columns(
        "marketplace_dispute",
        [
            *("id", "created_at", "attempt_id", "customer_id", "provider_id", "kind", "words", "disputed_micro"),
            "opened_by_id",
        ],
    ),
    laws.written_once("marketplace_dispute", {"decided_at": ["status", "decided_by_id", "reason", "refund_micro"]}),
]
