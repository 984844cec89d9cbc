"""The laws of bank payouts, as triggers: one live line, files that add up, bytes and decisions that stay."""

from __future__ import annotations

from django.db.migrations import RunSQL

from core import laws

LINE = RunSQL(
    """
    CREATE FUNCTION billing_bankline_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        found record;
    BEGIN
        SELECT status, rail, amount_cents INTO found FROM billing_payout WHERE id = NEW.payout_id FOR SHARE;
        IF found.rail <> 'bank' OR found.status NOT IN ('ready', 'submitted') THEN
            RAISE EXCEPTION 'payout % is % by %: no bank line may be written for it',
                NEW.payout_id, found.status, found.rail USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF found.amount_cents <> NEW.amount_cents THEN
            RAISE EXCEPTION 'line % says % cents, its payout %', NEW.end_to_end_id, NEW.amount_cents, found.amount_cents
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_bankline_law BEFORE INSERT ON billing_bankline
        FOR EACH ROW EXECUTE FUNCTION billing_bankline_law();

    CREATE FUNCTION billing_bankline_moves() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF OLD.state IN ('rejected', 'absent', 'returned') OR (OLD.state = 'settled' AND NEW.state <> 'returned') THEN
            RAISE EXCEPTION 'line % is % and stays so', OLD.end_to_end_id, OLD.state
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_bankline_moves BEFORE UPDATE OF state ON billing_bankline
        FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION billing_bankline_moves();
    """,
    """
    DROP TRIGGER billing_bankline_law ON billing_bankline; DROP FUNCTION billing_bankline_law();
    DROP TRIGGER billing_bankline_moves ON billing_bankline; DROP FUNCTION billing_bankline_moves();
    """,
)

# At commit, when file and lines are both there; a line that is added to a file later fails it, too.
FILE = RunSQL(
    """
    CREATE FUNCTION billing_bankfile_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        key uuid;
        said record;
        lines bigint;
        cents bigint;
    BEGIN
        IF TG_TABLE_NAME = 'billing_bankfile' THEN key := NEW.id; ELSE key := NEW.file_id; END IF;
        SELECT message_id, line_count, control_cents INTO said FROM billing_bankfile WHERE id = key;
        SELECT count(*), coalesce(sum(amount_cents), 0) INTO lines, cents FROM billing_bankline WHERE file_id = key;
        IF lines <> said.line_count OR cents <> said.control_cents THEN
            RAISE EXCEPTION 'file % says % lines of % cents, it has % of %',
                said.message_id, said.line_count, said.control_cents, lines, cents
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER billing_bankfile_law AFTER INSERT ON billing_bankfile
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_bankfile_law();
    CREATE CONSTRAINT TRIGGER billing_bankline_adds_up AFTER INSERT ON billing_bankline
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_bankfile_law();
    """,
    """
    DROP TRIGGER billing_bankline_adds_up ON billing_bankline;
    DROP TRIGGER billing_bankfile_law ON billing_bankfile; DROP FUNCTION billing_bankfile_law();
    """,
)

ENTRY = RunSQL(
    """
    CREATE TRIGGER billing_bankentry_once BEFORE UPDATE ON billing_bankentry
        FOR EACH ROW WHEN (OLD.state <> 'suspense') EXECUTE FUNCTION core_refuse_change();
    """,
    "DROP TRIGGER billing_bankentry_once ON billing_bankentry;",
)

OPERATIONS = [
    LINE,
    FILE,
    ENTRY,
    laws.frozen_columns(
        "billing_bankfile",
        [
            *("id", "created_at", "scheme", "message_id", "account", "currency", "execution_date"),
            *("line_count", "control_cents", "data", "sha256", "made_by_id"),
        ],
    ),
    laws.written_once("billing_bankfile", {"approved_at": ["approved_by_id"]}),
    laws.frozen_columns("billing_bankline", ["file_id", "payout_id", "n", "end_to_end_id", "amount_cents"]),
    laws.append_only("billing_bankmessage"),
    laws.frozen_columns(
        "billing_bankentry",
        [
            *("message_id", "key", "side", "currency", "amount_cents", "booked_on"),
            *("end_to_end_id", "reference", "counterparty", "text"),
        ],
    ),
    laws.frozen_columns(
        "billing_bankdecision", ["verdict", "line_id", "entry_id", "reason", "proposed_by_id", "created_at"]
    ),
    laws.written_once("billing_bankdecision", {"confirmed_at": ["confirmed_by_id"]}),
    laws.append_only("billing_disclosure"),
    laws.frozen_columns(
        "billing_eurrate", ["reference_micro", "margin_bps", "source", "published_at", "entered_by_id", "created_at"]
    ),
    laws.written_once("billing_eurrate", {"confirmed_at": ["confirmed_by_id"]}),
]
