"""Parts of addresses that can name something. What cannot is no address at all, so it never reaches the database."""

from django.urls import register_converter


class WorkloadUid:
    regex = "(?:job|env)-[a-z0-9]{1,24}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class Name:
    """Of a group, user, pool, node, image or profile."""

    regex = r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


def register() -> None:
    """``<workload:uid>`` and ``<name:...>`` in the portal's addresses."""
    register_converter(WorkloadUid, "workload")
    register_converter(Name, "name")
