"""What is taken of nodes and cards, and the word to a node that it should run something else.

Called inside the transaction that writes the allocation. Rows are locked in id order, nodes before cards; amounts
are added in the database, so no reader's old number is ever written back.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from django.db import IntegrityError, connection, transaction

from aistation.core.dispatch import broadcast


@dataclass(frozen=True, slots=True)
class NodeAmount:
    node_id: int
    cpu_milli: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class DeviceAmount:
    device_id: int
    memory_mib: int
    milli: int


def take_nodes(amounts: Collection[NodeAmount]) -> None:
    """Book CPU and memory. IntegrityError: a node is gone, or more than its capacity would be taken."""
    _change(_TAKE_NODES, [(amount.node_id, amount.cpu_milli, amount.memory_mib) for amount in amounts])


def give_back_nodes(amounts: Collection[NodeAmount]) -> None:
    """Undo `take_nodes`. IntegrityError: more than was taken."""
    _change(_GIVE_BACK_NODES, [(amount.node_id, amount.cpu_milli, amount.memory_mib) for amount in amounts])


def take_devices(amounts: Collection[DeviceAmount]) -> None:
    """Book parts of cards. IntegrityError: a card is gone, its memory unknown, or more than it has would be taken."""
    _change(_TAKE_DEVICES, [(amount.device_id, amount.memory_mib, amount.milli) for amount in amounts])


def give_back_devices(amounts: Collection[DeviceAmount]) -> None:
    """Undo `take_devices`. IntegrityError: more than was taken."""
    _change(_GIVE_BACK_DEVICES, [(amount.device_id, amount.memory_mib, amount.milli) for amount in amounts])


def take_node(node_id: int, cpu_milli: int, memory_mib: int) -> None:
    take_nodes([NodeAmount(node_id, cpu_milli, memory_mib)])


def give_back_node(node_id: int, cpu_milli: int, memory_mib: int) -> None:
    give_back_nodes([NodeAmount(node_id, cpu_milli, memory_mib)])


def take_device(device_id: int, memory_mib: int, milli: int) -> None:
    take_devices([DeviceAmount(device_id, memory_mib, milli)])


def give_back_device(device_id: int, memory_mib: int, milli: int) -> None:
    give_back_devices([DeviceAmount(device_id, memory_mib, milli)])


def bump_desired(node_ids: Collection[int]) -> None:
    """What these nodes should run has changed. Once committed they are woken; a lost call costs one heartbeat."""
    ids = sorted(set(node_ids))
    if not ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(_BUMP, {"ids": ids, "first": [1] * len(ids), "second": [0] * len(ids)})
        versions = dict(cursor.fetchall())
    transaction.on_commit(partial(_wake, versions), robust=True)


def node_group(node_id: int) -> str:
    """The Channels group of a node's wake socket."""
    return f"node.{node_id}"


def _wake(versions: dict[int, int]) -> None:
    for node_id, version in sorted(versions.items()):
        broadcast(node_group(node_id), {"type": "wake", "version": version})


def _change(statement: str, amounts: Sequence[tuple[int, int, int]]) -> None:
    first, second = Counter[int](), Counter[int]()
    for row_id, one, other in amounts:
        first[row_id] += one
        second[row_id] += other
    if not first:
        return
    ids = sorted(first)
    numbers = {"ids": ids, "first": [first[row] for row in ids], "second": [second[row] for row in ids]}
    with connection.cursor() as cursor:
        cursor.execute(statement, numbers)
        if cursor.rowcount != len(ids):
            raise IntegrityError("a node or card is gone")


def _update(table: str, assignments: str, condition: str = "", returning: str = "") -> str:
    """Add amounts to rows. All rows are locked in id order before the first is written: the count is a condition
    without a row in it, so PostgreSQL evaluates it once, up front."""
    return f"""
        WITH locked AS MATERIALIZED (
            SELECT id FROM {table} WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE
        )
        UPDATE {table} AS held SET {assignments}
        FROM unnest(%(ids)s::bigint[], %(first)s::bigint[], %(second)s::bigint[]) AS amount(id, first, second)
        WHERE held.id = amount.id AND (SELECT count(*) FROM locked) > 0 {condition} {returning}
    """  # noqa: S608 - constants of this module


_TAKE_NODES: Final = _update(
    "fleet_node",
    """
    cpu_taken_milli = held.cpu_taken_milli + amount.first,
    memory_taken_mib = held.memory_taken_mib + amount.second
    """,
    condition="AND held.removed_at IS NULL",
)
_GIVE_BACK_NODES: Final = _update(
    "fleet_node",
    """
    cpu_taken_milli = held.cpu_taken_milli - amount.first,
    cpu_over_milli = LEAST(held.cpu_over_milli, held.cpu_taken_milli - amount.first),
    memory_taken_mib = held.memory_taken_mib - amount.second,
    memory_over_mib = LEAST(held.memory_over_mib, held.memory_taken_mib - amount.second)
    """,
)
_TAKE_DEVICES: Final = _update(
    "fleet_device",
    """
    memory_taken_mib = held.memory_taken_mib + amount.first,
    taken_milli = LEAST(held.taken_milli + amount.second, 1001)
    """,
)
_GIVE_BACK_DEVICES: Final = _update(
    "fleet_device",
    """
    memory_taken_mib = held.memory_taken_mib - amount.first,
    memory_over_mib = LEAST(held.memory_over_mib, held.memory_taken_mib - amount.first),
    taken_milli = GREATEST(held.taken_milli - amount.second, -1)
    """,
)
_BUMP: Final = _update(
    "fleet_node",
    "desired_version = held.desired_version + amount.first",
    returning="RETURNING held.id, held.desired_version",
)
