"""A caller of each role, and one of each thing that an address can name."""

from dataclasses import dataclass

from aistation.catalog.services import create_folder, create_image, create_profile
from aistation.core.clock import now
from aistation.environments.services import create_environment
from aistation.fleet.services import create_join_token, create_lending, create_pool, create_reserve
from aistation.tenancy.policy import Role
from aistation.tenancy.services import set_member
from aistation.workloads.lifecycle import Kind
from tests.architecture.route_table import COLUMNS
from tests.factories.api import Api, a_world, api_of
from tests.factories.work import placed, submitted
from tests.factories.world import T0, a_submission, a_user


@dataclass(frozen=True)
class Stage:
    """A caller of each role, and ids of things: the group's, and ones that do not exist."""

    callers: dict[str, Api]
    ours: dict[str, str]
    absent: dict[str, str]


def a_stage() -> Stage:
    """Alice owns a queued job, an environment and a token; card 0 is taken."""
    world = a_world()
    site = world.site
    mike = a_user("mike")
    set_member(group=site.group, username="mike", role=Role.MEMBER, now=T0, actor=None)
    placed(site, 0)
    environment = create_environment(actor=site.actor, submission=a_submission(Kind.ENVIRONMENT), now=T0)
    image = create_image(name="own", reference="own:1", kinds=["job"], group=site.group, now=T0, actor=None)
    create_profile(name="small", kinds=["job"], resources={"cpu_milli": 1, "memory_mib": 1}, now=T0, actor=None)
    folder = create_folder(name="data", group=site.group, now=T0, actor=None)
    join = create_join_token(pool=site.pool, expires_in_s=3600, now=now(), actor=None)
    token = site.user.tokens.create(name="other", digest=b"x" * 32, created_at=T0, expires_at=now())
    other = create_pool(name="other", kinds=["job"], now=T0, actor=None)
    create_lending(name="night", lender=site.pool, borrower=other, values={}, now=T0, actor=None)
    create_reserve(name="morning", pool=site.pool, values={"slices": 8}, now=T0, actor=None)
    ours = {
        "group": "vision", "username": "alice", "pool": "default", "node": "n1", "image": image.name,
        "profile": "small", "folder": folder.uid, "job": submitted(site).uid, "environment": environment.uid,
        "token_id": str(token.pk), "join_token_id": str(join.token.pk), "rule": "night", "reserve": "morning",
    }  # fmt: skip
    absent = {
        "group": "nobody", "username": "noone", "pool": "none-such", "node": "n0", "image": "none-such",
        "profile": "none-such", "folder": "folder-zzzzzzzzzzzz", "job": "job-zzzzzzzzzzzz",
        "environment": "env-zzzzzzzzzzzz", "token_id": "999999999", "join_token_id": "999999999",
        "rule": "none-such", "reserve": "none-such",
    }  # fmt: skip
    callers = dict(
        zip(
            COLUMNS,
            (Api(None), world.bob, world.viewer, api_of(mike), world.alice, world.group_admin, world.root),
            strict=True,
        )
    )
    return Stage(callers, ours, absent)
