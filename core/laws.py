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


def default_partition(table: str) -> RunSQL:
    """A DEFAULT partition, so that no row is ever refused for want of a day's own (core.partitions makes those ahead)."""
    return RunSQL(f"CREATE TABLE {table}_default PARTITION OF {table} DEFAULT", f"DROP TABLE {table}_default")
