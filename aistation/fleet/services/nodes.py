"""Writes of nodes by people: joining, duty, removal."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import Q

from aistation.audit.services import agent_of, record
from aistation.core.dispatch import broadcast_on_commit, changed_on_commit, send_once_on_commit
from aistation.core.errors import ConflictError, FieldError, InvalidInputError, NotFoundError, UnauthenticatedError
from aistation.core.ids import new_secret
from aistation.core.validation import name_error
from aistation.fleet.models import Device, Duty, JoinToken, Liveness, Node, Pool
from aistation.fleet.services.capacity import node_group
from aistation.tenancy.policy import Actor

JOIN_TOKEN_PREFIX: Final = "aisj_"  # noqa: S105 - only its beginning
NODE_TOKEN_PREFIX: Final = "aisn_"  # noqa: S105
JOIN_TOKEN_LONGEST_S: Final = 30 * 24 * 3600
MOST_LABELS: Final = 32
_LABEL: Final = re.compile(r"[A-Za-z0-9._/-]{1,63}=[A-Za-z0-9._/-]{0,63}")


@dataclass(frozen=True, slots=True)
class NewJoinToken:
    """A join token and its secret, which nobody can read again."""

    token: JoinToken
    secret: str


@dataclass(frozen=True, slots=True)
class EnrolledNode:
    """A node and its credential, which nobody can read again."""

    node: Node
    secret: str


def digest_of(secret: str) -> bytes:
    """What is stored of a token: 256 random bits need no slow hash. Any text has a digest."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


@transaction.atomic
def create_join_token(*, pool: Pool, expires_in_s: int, now: datetime, actor: Actor | None) -> NewJoinToken:
    """Let one machine join ``pool`` within the given time. Raises InvalidInputError."""
    if not 1 <= expires_in_s <= JOIN_TOKEN_LONGEST_S:
        error = FieldError("expires_in_s", "out_of_range", f"Choose 1 to {JOIN_TOKEN_LONGEST_S} seconds.")
        raise InvalidInputError("The join token cannot be created.", errors=[error])
    secret = JOIN_TOKEN_PREFIX + new_secret()
    token = JoinToken.objects.create(
        digest=digest_of(secret),
        pool=pool,
        created_by=actor.username if actor else "system",
        created_at=now,
        expires_at=now + timedelta(seconds=expires_in_s),
    )
    after = {"pool": pool.name, "expires_at": token.expires_at.isoformat()}
    record(actor, now, "join_token.create", "join_token", str(token.pk), after=after)
    return NewJoinToken(token, secret)


@transaction.atomic
def revoke_join_token(*, token_id: int, now: datetime, actor: Actor) -> None:
    """End a join token that nobody has used. Raises NotFoundError."""
    if not JoinToken.objects.filter(pk=token_id, used_at=None, expires_at__gt=now).update(expires_at=now):
        raise NotFoundError
    record(actor, now, "join_token.revoke", "join_token", str(token_id))


@transaction.atomic
def enrol_node(*, join_token: str, name: str, fingerprint: str, agent_version: str, now: datetime) -> EnrolledNode:
    """Trade a join token, good once, for a node and its own credential. The node is lost until its first heartbeat.

    Raises UnauthenticatedError (token unknown, used or expired), InvalidInputError, ConflictError (the name is taken).
    A refusal does not use the token up.
    """
    unused = JoinToken.objects.select_for_update(of=("self",)).filter(used_at=None, expires_at__gt=now)
    token = unused.select_related("pool").filter(digest=digest_of(join_token)).first()
    if token is None:
        raise UnauthenticatedError("This join token is unknown, used or expired. Make a new one for each machine.")
    error = name_error("node_name", name)
    if error:
        raise InvalidInputError("The node cannot join under this name.", errors=[error])
    secret = NODE_TOKEN_PREFIX + new_secret()
    node = Node(
        name=name,
        pool=token.pool,
        token_digest=digest_of(secret),
        fingerprint=fingerprint,
        agent_version=agent_version,
        liveness=Liveness.LOST,
        enrolled_at=now,
        state_changed_at=now,
    )
    try:
        with transaction.atomic():
            node.save(force_insert=True)
    except IntegrityError as taken:
        message = f"There is a node {name}. Start its own agent, remove that node first, or choose another name."
        raise ConflictError(message, errors=[FieldError("node_name", "taken", message)]) from taken
    token.used_at = now
    token.node = node
    token.save(update_fields=["used_at", "node"])
    after = {"pool": token.pool.name, "join_token": token.pk, "join_token_of": token.created_by}
    record(agent_of(name), now, "node.enrol", "node", name, after=after)
    changed_on_commit("cluster")
    return EnrolledNode(node, secret)


@transaction.atomic
def set_duty(*, node_id: int, duty: Duty, now: datetime, actor: Actor) -> Node:
    """Cordon, drain, put into maintenance or back into service. Doing it twice changes nothing."""
    node = Node.objects.select_for_update(no_key=True).get(pk=node_id)
    before = Duty(node.duty)
    if before == duty:
        return node
    node.duty = duty
    node.state_changed_at = now
    node.save(update_fields=["duty", "state_changed_at"])
    record(actor, now, "node.set_duty", "node", node.name, before={"duty": before}, after={"duty": duty})
    send_once_on_commit("scheduling.decide")
    changed_on_commit("cluster")
    return node


@transaction.atomic
def set_labels(*, node_id: int, labels: Collection[str], now: datetime, actor: Actor) -> Node:
    """Replace the labels ("key=value") by which work may choose the node. Raises InvalidInputError."""
    wanted = sorted(set(labels))
    if len(wanted) > MOST_LABELS or not all(_LABEL.fullmatch(label) for label in wanted):
        message = f"Give at most {MOST_LABELS} labels such as rack=7, of letters, digits and . _ - /."
        raise InvalidInputError("The labels cannot be set.", errors=[FieldError("labels", "invalid", message)])
    node = Node.objects.select_for_update(no_key=True).get(pk=node_id)
    before = node.labels
    if before != wanted:
        node.labels = wanted
        node.save(update_fields=["labels"])
        record(actor, now, "node.set_labels", "node", node.name, before={"labels": before}, after={"labels": wanted})
        send_once_on_commit("scheduling.decide")
        changed_on_commit("cluster")
    return node


@transaction.atomic
def remove_node(*, node_id: int, now: datetime, actor: Actor) -> None:
    """End a node's membership and credential at once; its name is free again, its history stays.

    Raises ConflictError while work holds a part of it: its machine may still run that work.
    """
    node = Node.objects.select_for_update(no_key=True).get(pk=node_id)
    devices = Device.objects.filter(node=node)
    is_taken = Q(taken_milli__gt=0) | Q(memory_taken_mib__gt=0)
    if node.cpu_taken_milli or node.memory_taken_mib or devices.filter(is_taken).exists():
        raise ConflictError("Work is booked on this node. Drain it, or cancel what runs there, then remove it.")
    node.removed_at = node.state_changed_at = now
    node.duty = Duty.MAINTENANCE
    node.liveness = Liveness.LOST
    node.save(update_fields=["removed_at", "state_changed_at", "duty", "liveness"])
    devices.update(present=False, reason="The node was removed.")
    record(actor, now, "node.remove", "node", node.name)
    broadcast_on_commit(node_group(node.pk), {"type": "revoked"})
    send_once_on_commit("scheduling.decide")
    changed_on_commit("cluster")
