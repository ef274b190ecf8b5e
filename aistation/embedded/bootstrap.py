"""What a fresh installation starts with: an administrator, a group, a pool, images and profiles."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

from aistation.catalog import services as catalog
from aistation.core.clock import now as clock_now
from aistation.core.errors import UnauthenticatedError
from aistation.fleet import selectors as fleet_reads
from aistation.fleet.services import nodes, pools
from aistation.tenancy import selectors as tenancy_reads
from aistation.tenancy import services as tenancy
from aistation.tenancy.policy import Actor, Role
from scheduler.model import Kind

ADMIN: Final = "administrator"
DEFAULT: Final = "default"  # the name of the first group and of the first pool
_SLICES_PER_GPU: Final = 8
_JOIN_TOKEN_S: Final = 24 * 3600
_MADE_BY: Final = "quickstart"

_IMAGES: Final[tuple[Mapping[str, Any], ...]] = (  # named like the recipes in images/
    {
        "name": "shell",
        "reference": "debian:12-slim",
        "kinds": ("job",),
        "description": "Plain commands. With the process runtime: those of the machine itself.",
    },
    {
        "name": "train",
        "reference": "aistation/train:1",
        "kinds": ("job",),
        "description": "Python for training jobs.",
    },
    {
        "name": "jupyter",
        "reference": "aistation/jupyter:1",
        "kinds": ("environment", "job"),
        "port": 8888,
        "description": "JupyterLab with a Python kernel and a terminal.",
    },
)
_PROFILES: Final[tuple[tuple[str, str, Mapping[str, int]], ...]] = (
    ("cpu", "Two cores, no GPU", {"cpu_milli": 2000, "memory_mib": 4096}),
    ("slice", "One slice of a card", {"cpu_milli": 4000, "memory_mib": 16384, "gpus": 1, "gpu_slices": 1}),
    ("card", "A whole card", {"cpu_milli": 6000, "memory_mib": 49152, "gpus": 1}),
)


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """``created``: this was the first time. ``join_tokens``: one for each node that asked, good for a day."""

    created: bool
    username: str
    token: str
    join_tokens: Mapping[str, str]


def migrate() -> None:
    """Bring the tables up to date. Costs little when they are."""
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", interactive=False, verbosity=1)


@transaction.atomic
def bootstrap(*, password: str, token: str = "", joining: Collection[str] = ()) -> Bootstrapped:
    """Make what is missing. Only the first time makes more than tokens, so nothing that was removed comes back.

    ``token`` is the administrator's API token of an earlier time; one that is no longer good is replaced.
    """
    now = clock_now()
    admin_id = tenancy_reads.id_of_user(ADMIN)
    created = admin_id is None
    if admin_id is None:
        admin_id = _create_all(password, now)
    if not _is_good(token, admin_id, now):
        longest_s = settings.TOKEN_MAX_LIFETIME_S
        new = tenancy.create_token(
            user_id=admin_id, name=_MADE_BY, now=now, expires_in_s=longest_s, longest_s=longest_s, actor=None
        )
        token = new.secret
    return Bootstrapped(created, ADMIN, token, _join_tokens(joining, admin_id, now))


def _create_all(password: str, now: datetime) -> int:
    admin = tenancy.create_user(username=ADMIN, password=password, now=now, actor=None, is_platform_admin=True)
    group = tenancy.create_group(name=DEFAULT, now=now, actor=None)
    tenancy.set_member(group=group, username=ADMIN, role=Role.GROUP_ADMIN, now=now, actor=None)
    pools.create_pool(
        name=DEFAULT, kinds=[kind.value for kind in Kind], slices_per_gpu=_SLICES_PER_GPU, now=now, actor=None
    )
    for image in _IMAGES:
        catalog.create_image(**image, now=now, actor=None)
    for name, description, resources in _PROFILES:
        catalog.create_profile(
            name=name, description=description, kinds=("environment", "job"), resources=resources, now=now, actor=None
        )
    return admin.pk


def _is_good(token: str, admin_id: int, now: datetime) -> bool:
    if not token:
        return False
    try:
        actor, _ = tenancy_reads.actor_of_token(token, now)
    except UnauthenticatedError:
        return False
    return actor.user_id == admin_id


def _join_tokens(joining: Collection[str], admin_id: int, now: datetime) -> dict[str, str]:
    if not joining:
        return {}
    pool = fleet_reads.access_pool(_as_admin(admin_id), DEFAULT)
    return {
        name: nodes.create_join_token(pool=pool, expires_in_s=_JOIN_TOKEN_S, now=now, actor=None).secret
        for name in joining
    }


def _as_admin(admin_id: int) -> Actor:
    return Actor(admin_id, ADMIN, is_platform_admin=True, via="system")
