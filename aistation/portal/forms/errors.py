"""Puts what a service found wrong where the person typed it."""

from collections.abc import Mapping

from django.forms import Form

from aistation.core.errors import DomainError


def add_errors(form: Form, error: DomainError, names: Mapping[str, str] | None = None) -> None:
    """Each of the error's fields goes to the form's field of that name; ``names`` maps what is called otherwise.
    What fits nowhere, and an error without fields, stands above the form."""
    names = names or {}
    for found in error.errors:
        path = found.field.removeprefix("resources.")
        head = path.split("[")[0].split(".")[0]
        name = names.get(path) or names.get(head) or path
        form.add_error(name if name in form.fields else head if head in form.fields else None, found.message)
    if not error.errors:
        form.add_error(None, error.message)
