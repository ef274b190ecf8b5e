"""A snapshot as plain JSON values and back, so that any decision can be replayed."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from scheduler.model import Device, Kind, Limit, Node, Pool, Request, Resources, Scope, Snapshot, Strategy

FORMAT: Final = 1


def dump(snapshot: Snapshot) -> dict[str, Any]:
    """Everything in the snapshot, as values that ``json.dumps`` takes; rows keep their order."""
    return {
        "format": FORMAT,
        "version": snapshot.version,
        "now_us": snapshot.now_us,
        "pools": [{**asdict(pool), "kinds": sorted(pool.kinds)} for pool in snapshot.pools],
        "nodes": [{**asdict(node), "devices": [asdict(device) for device in node.devices]} for node in snapshot.nodes],
        "scopes": [asdict(scope) for scope in snapshot.scopes],
        "pending": [asdict(request) for request in snapshot.pending],
    }


def load(data: Mapping[str, Any]) -> Snapshot:
    """The snapshot that `dump` was given. Fields missing in an older dump take their defaults.

    Raises ValueError for another format, TypeError for a field that this version does not know.
    """
    if data.get("format") != FORMAT:
        raise ValueError(f"not a snapshot of format {FORMAT}: {data.get('format')!r}")
    return Snapshot(
        version=data["version"],
        now_us=data["now_us"],
        pools=tuple(_pool(row) for row in data["pools"]),
        nodes=tuple(_node(row) for row in data["nodes"]),
        scopes=tuple(_scope(row) for row in data["scopes"]),
        pending=tuple(_request(row) for row in data["pending"]),
    )


def _pool(row: Mapping[str, Any]) -> Pool:
    changed: dict[str, Any] = {"kinds": frozenset(Kind(kind) for kind in row["kinds"])}
    if "strategy" in row:
        changed["strategy"] = Strategy(row["strategy"])
    return Pool(**{**row, **changed})


def _node(row: Mapping[str, Any]) -> Node:
    return Node(**{**row, "devices": tuple(Device(**device) for device in row.get("devices", ()))})


def _scope(row: Mapping[str, Any]) -> Scope:
    fields: dict[str, Any] = {
        name: Limit(**value) if isinstance(value, Mapping) else value for name, value in row.items()
    }
    return Scope(**fields)


def _request(row: Mapping[str, Any]) -> Request:
    return Request(**{**row, "kind": Kind(row["kind"]), "resources": Resources(**row["resources"])})
