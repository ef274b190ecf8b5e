"""A small site: people, a pool, nodes with cards, an image. Every row is one that the product would make."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aistation.catalog.models import Image
from aistation.core.clock import now
from aistation.fleet.models import Device, Duty, Liveness, Node, Pool
from aistation.tenancy.models import Group, User
from aistation.tenancy.policy import Actor, Role
from aistation.tenancy.selectors import actor_of
from aistation.tenancy.services import create_group, create_user, set_member
from aistation.workloads.lifecycle import Kind
from aistation.workloads.submission import Submission
from scheduler.model import Resources

T0 = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
PASSWORD = "correct horse battery"
V100_MIB = 32_510


@dataclass(frozen=True)
class Site:
    """A group with one member, a pool cut in eight, an image called `shell`."""

    group: Group
    user: User
    pool: Pool
    image: Image

    @property
    def actor(self) -> Actor:
        actor = actor_of(self.user.pk)
        assert actor is not None
        return actor


def a_user(username: str, *, admin: bool = False) -> User:
    return create_user(username=username, password=PASSWORD, now=T0, actor=None, is_platform_admin=admin)


def a_group(name: str, **members: Role) -> Group:
    """A group with members: ``a_group("vision", alice=Role.MEMBER)``. People are made when missing."""
    group = create_group(name=name, now=T0, actor=None)
    for username, role in members.items():
        if not User.objects.filter(username=username).exists():
            a_user(username)
        set_member(group=group, username=username, role=role, now=T0, actor=None)
    return group


def a_pool(name: str = "default", *, slices: int = 8, kinds: tuple[str, ...] = ("environment", "job")) -> Pool:
    return Pool.objects.create(name=name, kinds=list(kinds), slices_per_gpu=slices, created_at=T0)


def a_node(
    name: str,
    pool: Pool,
    *,
    cards: int = 8,
    cpu_milli: int = 48_000,
    memory_mib: int = 393_216,
    model: str = "V100-32GB",
    card_mib: int | None = V100_MIB,
) -> Node:
    """A node as after its first heartbeat."""
    node = Node.objects.create(
        name=name,
        pool=pool,
        duty=Duty.IN_SERVICE,
        liveness=Liveness.READY,
        token_digest=name.encode().ljust(32, b"-"),
        fingerprint=name,
        runtime="process",
        address="127.0.0.1",
        machine_cpu_milli=cpu_milli,
        cpu_milli=cpu_milli * pool.cpu_overcommit_percent // 100,
        memory_mib=memory_mib,
        enrolled_at=T0,
        state_changed_at=T0,
        last_heartbeat_at=now() + timedelta(days=1),
    )
    Device.objects.bulk_create(
        Device(uuid=f"GPU-{name}-{index}", node=node, model=model, memory_mib=card_mib, seen_at=T0)
        for index in range(cards)
    )
    return node


def an_image(name: str = "shell", *, kinds: tuple[str, ...] = ("environment", "job"), port: int | None = 8888) -> Image:
    return Image.objects.create(name=name, reference=f"aistation/{name}:1", kinds=list(kinds), port=port, created_at=T0)


def a_site(group: str = "vision", user: str = "alice") -> Site:
    made = a_group(group, **{user: Role.MEMBER})
    return Site(made, User.objects.get(username=user), a_pool(), an_image())


def a_submission(kind: Kind = Kind.JOB, **changes: Any) -> Submission:
    """One card, one core. ``resources`` may be given by its fields: ``gpus=2``."""
    fields: dict[str, Any] = {"cpu_milli": 1000, "memory_mib": 1024, "gpus": 1}
    fields |= {key: changes.pop(key) for key in list(changes) if key in Resources.__dataclass_fields__}
    return Submission(
        **{
            "kind": kind,
            "name": "train",
            "image": "shell",
            "resources": Resources(**fields),
            **changes,
        }
    )
