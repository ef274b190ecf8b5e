"""Many rows in one statement."""

from collections.abc import Sequence

from django.db import connection
from django.db.models import Model


def update_rows(rows: Sequence[Model], fields: Sequence[str]) -> None:
    """Write these fields of rows of one table, as they are in memory. Its key is ``id``.

    Django's ``bulk_update`` makes a CASE of each field and row, which costs more than saving one by one.
    """
    if not rows:
        return
    meta = rows[0]._meta
    by_name = {field.name: field for field in meta.concrete_fields}
    columns = [by_name["id"], *(by_name[name] for name in fields)]
    quote = connection.ops.quote_name
    names = [quote(str(field.column)) for field in columns]
    types = ["bigint", *(str(field.db_type(connection)) for field in columns[1:])]
    statement = (
        f"UPDATE {quote(meta.db_table)} AS old SET {', '.join(f'{name} = new.{name}' for name in names[1:])}"  # noqa: S608
        f" FROM unnest({', '.join(f'%s::{one}[]' for one in types)}) AS new ({', '.join(names)})"
        " WHERE old.id = new.id"
    )
    values = [[field.get_db_prep_save(getattr(row, field.attname), connection) for row in rows] for field in columns]
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
