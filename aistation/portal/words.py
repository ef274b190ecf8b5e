"""States and reasons in the reader's words. The codes are closed lists, so each has its text here."""

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

STATES: Final[Mapping[str, str | Promise]] = {
    "held": _("held"),
    "queued": _("queued"),
    "scheduled": _("scheduled"),
    "pulling": _("pulling image"),
    "starting": _("starting"),
    "running": _("running"),
    "stopping": _("stopping"),
    "preempting": _("preempting"),
    "succeeded": _("succeeded"),
    "failed": _("failed"),
    "cancelled": _("cancelled"),
    "timed_out": _("timed out"),
    "stopped": _("stopped"),
    # nodes
    "ready": _("ready"),
    "cordoned": _("cordoned"),
    "draining": _("draining"),
    "suspect": _("suspect"),
    "lost": _("lost"),
    "maintenance": _("maintenance"),
}
COLOURS: Final[Mapping[str, str]] = {
    "held": "yellow",
    "queued": "azure",
    "scheduled": "blue",
    "pulling": "blue",
    "starting": "blue",
    "running": "green",
    "stopping": "orange",
    "preempting": "orange",
    "succeeded": "teal",
    "failed": "red",
    "cancelled": "secondary",
    "timed_out": "red",
    "stopped": "secondary",
    "ready": "green",
    "cordoned": "yellow",
    "draining": "orange",
    "suspect": "orange",
    "lost": "red",
    "maintenance": "secondary",
}
MOVING: Final = frozenset({"scheduled", "pulling", "starting", "running", "stopping", "preempting", "draining"})
"""States whose dot pulses: something is under way."""

PHASES: Final[Mapping[str, str | Promise]] = {
    "pending": _("waits for its node"),
    "pulling": _("pulling image"),
    "starting": _("starting"),
    "running": _("running"),
    "paused": _("paused"),
    "exited": _("exited"),
    "failed": _("failed"),
    "gone": _("gone"),
}
END_REASONS: Final[Mapping[str, str | Promise]] = {
    "completed": _("completed"),
    "user_stopped": _("stopped by a person"),
    "exit_nonzero": _("exit code is not 0"),
    "oom_host": _("out of memory"),
    "oom_gpu": _("out of GPU memory"),
    "node_lost": _("node lost"),
    "preempted": _("preempted"),
    "reclaimed": _("card reclaimed by its pool"),
    "idle_timeout": _("idle for too long"),
    "lifetime": _("end of lifetime"),
    "time_limit": _("time limit reached"),
    "image_pull": _("image could not be pulled"),
    "quota_revoked": _("quota revoked"),
    "agent_error": _("the node could not run it"),
}
PENDING_REASONS: Final[Mapping[str, str | Promise]] = {
    "quota_user": _("your quota"),
    "quota_group": _("group quota"),
    "pool_full": _("pool full"),
    "fragmented": _("room is scattered"),
    "no_such_device": _("no such hardware"),
    "dependency": _("waits for another job"),
    "held": _("held"),
    "reserved_for_other": _("reserved for others"),
    "window_closed": _("outside its hours"),
    "node_unavailable": _("nodes out of service"),
}
EVENTS: Final[Mapping[str, str | Promise]] = {
    "submit": _("submitted"),
    "hold": _("held"),
    "release": _("released"),
    "place": _("placed on a node"),
    "pull": _("pulls its image"),
    "create": _("container is created"),
    "start": _("started"),
    "stop": _("told to stop"),
    "preempt": _("preempted"),
    "end_ok": _("succeeded"),
    "end_failed": _("failed"),
    "end_cancelled": _("cancelled"),
    "end_timed_out": _("timed out"),
    "end_stopped": _("stopped"),
    "end_retry": _("queued again"),
    "resume": _("asked for again"),
}
ROLES: Final[Mapping[str, str | Promise]] = {
    "viewer": _("viewer"),
    "member": _("member"),
    "group_admin": _("group admin"),
    "platform_admin": _("platform admin"),
}
KINDS: Final[Mapping[str, str | Promise]] = {
    "environment": _("environment"),
    "job": _("job"),
    "replica": _("service replica"),
}
