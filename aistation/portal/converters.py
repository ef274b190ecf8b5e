"""Parts of addresses that can name something. What cannot is no address at all, so it never reaches the database."""

from django.urls import register_converter

from aistation.core import converters  # noqa: F401 - makes the shared kinds of address parts known


class WorkloadUid:
    regex = "(?:job|env)-[a-z0-9]{1,24}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


def register() -> None:
    """``<workload:uid>`` in the portal's addresses; ``<name:...>`` comes with the shared ones."""
    register_converter(WorkloadUid, "workload")
