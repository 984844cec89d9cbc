"""The ledger's laws, as triggers. Nobody but the owner of the tables can switch them off, and the app role owns none."""

from __future__ import annotations

from django.db.migrations import RunSQL

from core import laws

# The header's law fires once per transfer, at commit: postings come after the header, and only then is the sum known.
TRANSFER = RunSQL(
    """
    CREATE FUNCTION billing_transfer_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        legs bigint;
        unbalanced text;
    BEGIN
        IF NEW.written_in <> pg_current_xact_id()::text::bigint THEN
            RAISE EXCEPTION 'transfer % names another transaction than the one that wrote it', NEW.source
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        SELECT coalesce(sum(n), 0), string_agg(asset || ' ' || total, ', ') FILTER (WHERE total <> 0)
            INTO legs, unbalanced
            FROM (
                SELECT a.asset, count(*) AS n, sum(p.amount) AS total
                FROM billing_posting p JOIN billing_account a ON a.id = p.account_id
                WHERE p.transfer_id = NEW.id GROUP BY a.asset
            ) AS by_asset;
        IF legs < 2 THEN
            RAISE EXCEPTION 'transfer % has % postings, at least 2 are needed', NEW.source, legs
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF unbalanced IS NOT NULL THEN
            RAISE EXCEPTION 'transfer % does not add up to zero: %', NEW.source, unbalanced
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER billing_transfer_law AFTER INSERT ON billing_transfer
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_transfer_law();
    """,
    "DROP TRIGGER billing_transfer_law ON billing_transfer; DROP FUNCTION billing_transfer_law();",
)

# Per statement, not per row: a batch of fifty transfers costs one join and one UPDATE.
POSTING = RunSQL(
    """
    CREATE FUNCTION billing_posting_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        late text;
    BEGIN
        SELECT t.source INTO late FROM written w JOIN billing_transfer t ON t.id = w.transfer_id
            WHERE t.written_in <> pg_current_xact_id()::text::bigint LIMIT 1;
        IF late IS NOT NULL THEN
            RAISE EXCEPTION 'transfer % is closed: postings are written with their header', late
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        UPDATE billing_account a SET balance = a.balance + s.total
            FROM (SELECT account_id, sum(amount) AS total FROM written GROUP BY account_id) AS s
            WHERE a.id = s.account_id AND a.live AND s.total <> 0;
        RETURN NULL;
    END $$;
    CREATE TRIGGER billing_posting_law AFTER INSERT ON billing_posting
        REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION billing_posting_law();
    """,
    "DROP TRIGGER billing_posting_law ON billing_posting; DROP FUNCTION billing_posting_law();",
)

# A balance is written by the postings' trigger only (depth 2 here); an account opens empty and keeps its identity.
ACCOUNT = RunSQL(
    """
    CREATE FUNCTION billing_account_law() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN
            IF NEW.balance <> 0 OR NEW.held <> 0 THEN
                RAISE EXCEPTION 'an account opens empty' USING ERRCODE = 'integrity_constraint_violation';
            END IF;
        ELSIF NEW.balance <> OLD.balance AND pg_trigger_depth() < 2 THEN
            RAISE EXCEPTION 'a balance is written by postings only' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_account_law BEFORE INSERT OR UPDATE ON billing_account
        FOR EACH ROW EXECUTE FUNCTION billing_account_law();
    """,
    "DROP TRIGGER billing_account_law ON billing_account; DROP FUNCTION billing_account_law();",
)

MATURED_ONCE = RunSQL(
    """
    CREATE TRIGGER billing_earningline_matured_once BEFORE UPDATE ON billing_earningline
        FOR EACH ROW WHEN (OLD.matured_at IS NOT NULL) EXECUTE FUNCTION core_refuse_change();
    """,
    "DROP TRIGGER billing_earningline_matured_once ON billing_earningline;",
)

OPERATIONS = [
    TRANSFER,
    POSTING,
    ACCOUNT,
    laws.frozen_columns("billing_account", ["owner_id", "kind", "asset", "live", "created_at"]),
    laws.append_only("billing_transfer"),
    laws.append_only("billing_posting"),
    laws.append_only("billing_postingfence"),
    laws.append_only("billing_balancecheckpoint"),
    laws.append_only("billing_creditedusage"),
    laws.frozen_columns(
        "billing_earningline",
        ["transfer_id", "provider_id", "gpu_id", "gpu_model", "rental_id", "amount_micro", "earned_at", "matures_at"],
    ),
    MATURED_ONCE,
    laws.frozen_columns("billing_hold", ["source", "account_id", "placed_micro"]),
    laws.append_only("billing_feerate"),
    laws.append_only("billing_policyrow"),
    laws.append_only("billing_depositintent"),
    laws.frozen_columns("billing_deposit", ["signature", "account", "slot", "amount_micro", "transfer_id"]),
]
