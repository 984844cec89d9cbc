"""The laws of what protects people's money: limits are written down once, frozen earnings do not mature."""

from __future__ import annotations

from django.db.migrations import RunSQL

from core import laws

# Maturing looks for freezes first; one that is committed between that look and the writing is found here.
FROZEN_STAYS = RunSQL(
    """
    CREATE FUNCTION billing_earningline_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM billing_earningfreeze WHERE rental_id = NEW.rental_id AND thawed_at IS NULL;
        IF FOUND THEN
            RAISE EXCEPTION 'the earnings of rental % are frozen and do not mature', NEW.rental_id
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_earningline_stays BEFORE UPDATE OF matured_at ON billing_earningline
        FOR EACH ROW EXECUTE FUNCTION billing_earningline_frozen();
    """,
    "DROP TRIGGER billing_earningline_stays ON billing_earningline; DROP FUNCTION billing_earningline_frozen();",
)

OPERATIONS = [
    FROZEN_STAYS,
    laws.append_only("billing_spendlimit"),
    laws.append_only("billing_spendnotice"),
    laws.frozen_columns("billing_earningfreeze", ["source", "provider_id", "rental_id", "created_at"]),
    laws.written_once("billing_earningfreeze", {"thawed_at": []}),
]
