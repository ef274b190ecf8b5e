"""Makes a table append-only in the database itself."""

from django.db import migrations


def append_only(table: str) -> migrations.RunSQL:
    """A migration operation: UPDATE of a row of ``table`` is refused, by whomever.

    DELETE is left to the foreign keys' cascade and to retention.
    """
    return migrations.RunSQL(
        sql=f"""
            CREATE FUNCTION {table}_refuse_update() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION '{table} is append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$;
            CREATE TRIGGER {table}_append_only BEFORE UPDATE ON {table}
            FOR EACH ROW EXECUTE FUNCTION {table}_refuse_update();
        """,
        reverse_sql=f"DROP TRIGGER {table}_append_only ON {table}; DROP FUNCTION {table}_refuse_update();",
    )
