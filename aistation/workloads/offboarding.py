"""The end of a person's or a group's time on the platform. Rows stay as a tombstone: history keeps its names.

Live work blocks it, with its ids: whoever asks ends that first, so that no container is left without an owner.
"""

from datetime import datetime
from typing import Any, Final

from django.db import transaction

from aistation.audit.services import record
from aistation.core.errors import ConflictError
from aistation.tenancy import services as tenancy
from aistation.tenancy.models import Group, User
from aistation.tenancy.policy import Actor
from aistation.workloads.lifecycle import HOLDING, WAITING
from aistation.workloads.models import Workload

MOST_NAMED: Final = 50


@transaction.atomic
def retire_user(*, user: User, now: datetime, actor: Actor) -> None:
    """Deactivate a person and end all tokens and sessions. Raises ConflictError that names live work (``live``).

    Doing it twice changes nothing. Submits under way are waited for: they hold the person's row.
    """
    if user.is_active or user.is_platform_admin:
        tenancy.change_user(user_id=user.pk, is_active=False, is_platform_admin=False, now=now, actor=actor)
    User.objects.select_for_update().get(pk=user.pk)  # waits for those who insert rows of this person
    _refuse_while_live("user", user.username, user=user)


@transaction.atomic
def retire_group(*, group: Group, now: datetime, actor: Actor) -> None:
    """Archive a group: nobody sees it any more, its name stays taken. Raises ConflictError that names live work."""
    found = Group.objects.select_for_update().get(pk=group.pk)
    _refuse_while_live("group", found.name, group=found)
    if found.archived_at is not None:
        return
    found.archived_at = now
    found.save(update_fields=["archived_at"])
    record(
        actor,
        now,
        "group.archive",
        "group",
        found.name,
        group=found.name,
    )


def _refuse_while_live(what: str, name: str, **owner: Any) -> None:
    live = Workload.objects.filter(state__in=[*WAITING, *HOLDING], **owner).order_by("pk")
    uids = list(live.values_list("uid", flat=True)[:MOST_NAMED])
    if uids:
        count = live.count()
        message = f"{count} workloads of the {what} {name} are live. Cancel or stop them first."
        raise ConflictError(message, live=uids, live_count=count)
