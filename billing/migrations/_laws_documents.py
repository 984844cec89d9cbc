"""The laws of documents: numbers without a gap, what was issued stays, and its lines add up to what it is about."""

from __future__ import annotations

from django.db.migrations import RunSQL

from core import laws

# AFTER, not BEFORE: an INSERT that ON CONFLICT DO NOTHING drops must not use up a number. The UPDATE takes the series' row
# lock until the end of the transaction, so the next number waits for this one, and a rollback gives it back.
NUMBERS = RunSQL(
    """
    CREATE FUNCTION billing_document_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        due integer;
        lines numeric;
        subject bigint;
    BEGIN
        UPDATE billing_documentseries SET last = last + 1 WHERE name = NEW.series_id RETURNING last INTO due;
        IF NEW.number IS DISTINCT FROM due THEN
            RAISE EXCEPTION 'document %-% breaks its series: % is due', NEW.series_id, NEW.number, due
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        SELECT coalesce(sum((line->>'amount_micro')::bigint), 0) INTO lines
            FROM jsonb_array_elements(NEW.facts->'lines') AS line;
        IF lines IS DISTINCT FROM NEW.total_micro THEN
            RAISE EXCEPTION 'document %-%: its lines add up to %, not to %', NEW.series_id, NEW.number, lines, NEW.total_micro
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        SELECT amount_micro INTO subject FROM billing_payout
            WHERE id = NEW.payout_id AND party_id = NEW.party_id AND status = 'settled';
        IF NEW.payout_id IS NOT NULL AND subject IS DISTINCT FROM NEW.total_micro THEN
            RAISE EXCEPTION 'document %-% states %, its settled payout is %',
                NEW.series_id, NEW.number, NEW.total_micro, subject USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        SELECT amount_micro INTO subject FROM billing_deposit
            WHERE id = NEW.deposit_id AND party_id = NEW.party_id AND state = 'credited';
        IF NEW.deposit_id IS NOT NULL AND subject IS DISTINCT FROM NEW.total_micro THEN
            RAISE EXCEPTION 'document %-% states %, its credited deposit is %',
                NEW.series_id, NEW.number, NEW.total_micro, subject USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER billing_document_law AFTER INSERT ON billing_document
        FOR EACH ROW EXECUTE FUNCTION billing_document_law();

    CREATE FUNCTION billing_documentseries_law() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN
            IF NEW.last <> 0 THEN
                RAISE EXCEPTION 'a series begins at 0' USING ERRCODE = 'integrity_constraint_violation';
            END IF;
        ELSIF NEW.last <> OLD.last + 1 OR pg_trigger_depth() < 2 THEN
            RAISE EXCEPTION 'a series is moved by its documents only' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_documentseries_law BEFORE INSERT OR UPDATE ON billing_documentseries
        FOR EACH ROW EXECUTE FUNCTION billing_documentseries_law();
    """,
    """
    DROP TRIGGER billing_document_law ON billing_document; DROP FUNCTION billing_document_law();
    DROP TRIGGER billing_documentseries_law ON billing_documentseries; DROP FUNCTION billing_documentseries_law();
    """,
)

OPERATIONS = [
    NUMBERS,
    laws.append_only("billing_document"),
    laws.frozen_columns("billing_documentseries", ["name"]),
]
