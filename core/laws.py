"""Laws that live in the database, as migration operations. Each is tested through raw SQL."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.migrations import RunSQL

REFUSE_CHANGE = RunSQL(
    """
    CREATE FUNCTION core_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION '% on % is refused: its rows are written once', TG_OP, TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation';
    END $$;
    """,
    "DROP FUNCTION core_refuse_change()",
)


def append_only(table: str) -> RunSQL:
    """Rows of ``table`` are written once: UPDATE, DELETE and TRUNCATE are refused, whoever asks."""
    return RunSQL(
        f"""
        CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
            FOR EACH ROW EXECUTE FUNCTION core_refuse_change();
        CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION core_refuse_change();
        """,
        f"DROP TRIGGER {table}_append_only ON {table}; DROP TRIGGER {table}_no_truncate ON {table};",
    )


def frozen_columns(table: str, columns: Iterable[str]) -> RunSQL:
    """The named columns of ``table`` never change after INSERT, and its rows are never deleted."""
    changed = " OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in columns)
    return RunSQL(
        f"""
        CREATE TRIGGER {table}_frozen BEFORE UPDATE ON {table}
            FOR EACH ROW WHEN ({changed}) EXECUTE FUNCTION core_refuse_change();
        CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
            FOR EACH ROW EXECUTE FUNCTION core_refuse_change();
        CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION core_refuse_change();
        """,
        f"DROP TRIGGER {table}_frozen ON {table}; DROP TRIGGER {table}_no_delete ON {table};"
        f" DROP TRIGGER {table}_no_truncate ON {table};",
    )


def written_once(table: str, columns_by_stamp: dict[str, Iterable[str]]) -> RunSQL:
    """Columns that are null or empty until their stamp (a column with an instant) is set, and never change from then on.

    Combine with ``frozen_columns``, which guards the columns that are written at INSERT, and the rows themselves.
    """
    stages = []
    for stamp, columns in columns_by_stamp.items():
        differs = " OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in (stamp, *columns))
        stages.append(f"(OLD.{stamp} IS NOT NULL AND ({differs}))")
    changed = " OR ".join(stages)
    return RunSQL(
        f"""
        CREATE TRIGGER {table}_written_once BEFORE UPDATE ON {table}
            FOR EACH ROW WHEN ({changed}) EXECUTE FUNCTION core_refuse_change();
        """,
        f"DROP TRIGGER {table}_written_once ON {table};",
    )


PARTITIONS = RunSQL(
    """
    CREATE TABLE core_partitioned (name text PRIMARY KEY, keep_days integer NOT NULL CHECK (keep_days > 0));

    CREATE FUNCTION core_partition_make(parent text, day date) RETURNS void
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DECLARE child text := parent || to_char(day, '"_p"YYYYMMDD');
    BEGIN
        PERFORM 1 FROM core_partitioned WHERE name = parent;
        IF NOT FOUND THEN RAISE EXCEPTION 'table % is not registered as partitioned', parent; END IF;
        IF to_regclass(child) IS NULL THEN
            PERFORM pg_advisory_xact_lock(hashtext('core_partition_make'));
            EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                           child, parent, day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
        END IF;
    END $$;

    CREATE FUNCTION core_partition_drop(parent text, before date) RETURNS integer
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DECLARE child text; dropped integer := 0;
    BEGIN
        PERFORM 1 FROM core_partitioned WHERE name = parent;
        IF NOT FOUND THEN RAISE EXCEPTION 'table % is not registered as partitioned', parent; END IF;
        FOR child IN
            SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = to_regclass(parent)
              AND c.relname ~ ('^' || parent || '_p[0-9]{8}$') AND right(c.relname, 8) < to_char(before, 'YYYYMMDD')
        LOOP
            EXECUTE format('DROP TABLE %I', child);
            dropped := dropped + 1;
        END LOOP;
        RETURN dropped;
    END $$;

    REVOKE ALL ON FUNCTION core_partition_make(text, date), core_partition_drop(text, date) FROM PUBLIC;
    DO $$ BEGIN
        IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'gpunex_app') THEN
            GRANT EXECUTE ON FUNCTION core_partition_make(text, date), core_partition_drop(text, date) TO gpunex_app;
            REVOKE INSERT, UPDATE, DELETE ON core_partitioned FROM gpunex_app;
        END IF;
    END $$;
    """,
    "DROP FUNCTION core_partition_make(text, date); DROP FUNCTION core_partition_drop(text, date);"
    " DROP TABLE core_partitioned;",
)


def partitioned(table: str, *, keep_days: int) -> RunSQL:
    """Register a table created ``PARTITION BY RANGE (<timestamptz>)`` with the daily verb of core.partitions.

    A DEFAULT partition catches what falls outside the days made so far, so no row is ever refused for want of one.
    """
    return RunSQL(
        f"CREATE TABLE {table}_default PARTITION OF {table} DEFAULT;"
        f" INSERT INTO core_partitioned (name, keep_days) VALUES ('{table}', {int(keep_days)});",
        f"DROP TABLE {table}_default; DELETE FROM core_partitioned WHERE name = '{table}';",
    )
