"""Which topics exist, and who may listen to them. A topic is the name of its Channels group."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from django.contrib.auth import get_user
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest

from aistation.tenancy.policy import Action, Actor, allows
from aistation.tenancy.selectors import actor_of
from aistation.workloads.selectors import allowed_uids

MOST_TOPICS: Final = 64
_TOPIC: Final = re.compile(r"(queue|cluster)|(workload|log)\.((?:job|env)-[a-z0-9]{1,24})|(group|user)\.([0-9]{1,12})")


def actor_of_session(session: SessionBase) -> Actor | None:
    """Who this session belongs to now; None once it has ended or its person may no longer sign in.

    ``session`` is read anew, so pass a fresh one.
    """
    request = HttpRequest()
    request.session = session
    user = get_user(request)
    return actor_of(user.pk) if user.is_authenticated else None


def allowed_topics(actor: Actor, topics: Collection[object]) -> list[str]:
    """Those of the topics that this person may listen to, in order. What is absent and what is not theirs are alike."""
    wanted = [topic for topic in topics if isinstance(topic, str) and len(topic) <= 64][:MOST_TOPICS]
    parsed = [(topic, match) for topic in wanted if (match := _TOPIC.fullmatch(topic))]
    uids = [match[3] for _, match in parsed if match[3]]
    seen = {Action.VIEW_WORKLOAD: _uids(actor, uids, Action.VIEW_WORKLOAD), Action.VIEW_LOGS: set[str]()}
    if any(match[2] == "log" for _, match in parsed):
        seen[Action.VIEW_LOGS] = _uids(actor, uids, Action.VIEW_LOGS)
    return [topic for topic, match in parsed if _may_listen(actor, match, seen)]


def _uids(actor: Actor, uids: Sequence[str], action: Action) -> set[str]:
    return allowed_uids(actor, uids, action) if uids else set()


def _may_listen(actor: Actor, match: re.Match[str], seen: dict[Action, set[str]]) -> bool:
    if match[1]:
        return allows(actor, Action.VIEW_CLUSTER)
    if match[3]:
        return match[3] in seen[Action.VIEW_LOGS if match[2] == "log" else Action.VIEW_WORKLOAD]
    number = int(match[5])
    if match[4] == "user":
        return number == actor.user_id
    return allows(actor, Action.VIEW_GROUP, group_id=number)
