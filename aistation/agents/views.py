"""The endpoints of `agentapi.v1`. Each item of a message is handled on its own: a bad one stops no other."""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from agentapi.v1 import (
    MAX_LOG_BATCH,
    MAX_LOG_CHUNK,
    Desired,
    EnrolReply,
    EnrolRequest,
    Heartbeat,
    HeartbeatReply,
    LogBatch,
    LogReply,
    Report,
    ReportReply,
    TaskReport,
    TaskSpec,
)
from aistation.agents import translate
from aistation.agents.authentication import authenticate
from aistation.agents.messages import read, reply, require_method
from aistation.core.clock import database_now
from aistation.core.errors import FieldError, InvalidInputError, UnauthenticatedError
from aistation.fleet import selectors as fleet_reads
from aistation.fleet import services as fleet
from aistation.fleet.selectors import NodeIdentity
from aistation.workloads import logs, reports
from aistation.workloads import selectors as workload_reads
from aistation.workloads.logs import Chunk
from aistation.workloads.selectors import DesiredTask

logger = logging.getLogger(__name__)

MOST_TASKS: Final = 1000  # of one report; a node runs some hundred at most
_KIB: Final = 1024
_ENROL_LONGEST: Final = 16 * _KIB
_HEARTBEAT_LONGEST: Final = 512 * _KIB
_REPORT_LONGEST: Final = 1024 * _KIB
_LOGS_LONGEST: Final = MAX_LOG_BATCH * 3 // 2  # base64 and what is around it


@csrf_exempt
def enrol(request: HttpRequest) -> HttpResponse:
    """Trade a join token for a node's credential."""
    require_method(request, "POST")
    asked = read(request, EnrolRequest, longest=_ENROL_LONGEST)
    enrolled = fleet.enrol_node(
        join_token=asked.join_token,
        name=asked.node_name,
        fingerprint=translate.text(asked.fingerprint, 128),
        agent_version=translate.text(asked.agent_version, 32),
        now=database_now(),
    )
    return reply(EnrolReply(node_name=enrolled.node.name, node_token=enrolled.secret))


@csrf_exempt
def heartbeat(request: HttpRequest) -> HttpResponse:
    require_method(request, "POST")
    identity = _identify(request)
    facts = translate.node_facts(read(request, Heartbeat, longest=_HEARTBEAT_LONGEST))
    beat = fleet.record_heartbeat(
        node_id=identity.node_id,
        facts=facts,
        now=database_now(),
        allow_process_runtime=settings.ALLOW_PROCESS_RUNTIME,
    )
    return reply(HeartbeatReply(interval_s=settings.HEARTBEAT_S, version=beat.version))


@csrf_exempt
def report(request: HttpRequest) -> HttpResponse:
    """What the node's containers do. A task of another node, or with another nonce, is passed over."""
    require_method(request, "POST")
    identity = _identify(request)
    told = read(request, Report, longest=_REPORT_LONGEST)
    now = database_now()
    if translate.text(told.fingerprint, 128) != identity.fingerprint:
        fleet.refuse_identity(node_id=identity.node_id, fingerprint=translate.text(told.fingerprint, 128), now=now)
    if len(told.tasks) > MOST_TASKS or len(told.foreign) > MOST_TASKS:
        error = FieldError("tasks", "too_many", f"A report holds at most {MOST_TASKS} tasks.")
        raise InvalidInputError("The report is too long.", errors=[error])
    settled = _record(identity, told.tasks, now)
    named = [(one.task_id, one.nonce) for one in told.foreign]
    found = [pair for pair in named if translate.is_id(pair[0]) and translate.is_id(pair[1])]
    remove = workload_reads.finished_foreign(identity.node_id, found) if found else []
    wanted = _desired_unless(identity, told.version)
    return reply(ReportReply(settled=tuple(settled), remove=tuple(remove), desired=wanted))


@csrf_exempt
def logs_of_tasks(request: HttpRequest) -> HttpResponse:
    require_method(request, "POST")
    identity = _identify(request)
    batch = read(request, LogBatch, longest=_LOGS_LONGEST)
    by_task: dict[tuple[str, str], list[Chunk]] = {}
    for index, wire in enumerate(batch.chunks):
        if len(wire.data) > MAX_LOG_CHUNK:
            error = FieldError(f"chunks.{index}.data", "too_long", f"A chunk holds at most {MAX_LOG_CHUNK} bytes.")
            raise InvalidInputError("The batch cannot be stored.", errors=[error])
        chunk = translate.chunk(wire)
        if chunk is not None:
            by_task.setdefault((chunk.task_uid, chunk.nonce), []).append(chunk)
    now = database_now()
    stored: dict[str, int] = {}
    for chunks in by_task.values():
        stored |= _store(identity, chunks, now)
    return reply(LogReply(stored=stored))


def desired(request: HttpRequest) -> HttpResponse:
    require_method(request, "GET")
    identity = _identify(request)
    wanted = _desired_unless(identity, None)
    if wanted is None:
        raise UnauthenticatedError("This node was removed. Enrol the machine again with a new join token.")
    return reply(wanted)


def _identify(request: HttpRequest) -> NodeIdentity:
    return authenticate(request.META.get("HTTP_AUTHORIZATION", ""))


def _record(identity: NodeIdentity, wires: Sequence[TaskReport], now: datetime) -> list[str]:
    """Ids of the tasks that are settled. When they cannot be taken in together, each is tried alone: one that fails
    is logged, comes again with the next report, and holds up no other (B016)."""
    facts = [fact for wire in wires if (fact := translate.task_facts(wire)) is not None]
    try:
        outcomes = reports.record_task_reports(node_id=identity.node_id, reports=facts, now=now) if facts else []
    except Exception:
        if len(facts) > 1:
            return [uid for wire in wires for uid in _record(identity, [wire], now)]
        logger.exception("report of task %s by node %s failed", facts[0].task_uid, identity.name)
        return []
    return [fact.task_uid for fact, outcome in zip(facts, outcomes, strict=True) if outcome.settled]


def _store(identity: NodeIdentity, chunks: Sequence[Chunk], now: datetime) -> dict[str, int]:
    """The length of the log held now. A task whose log cannot be stored is answered with what it sent from on: it
    comes again, and neither is dropped nor holds up the others (B016)."""
    try:
        return logs.store_chunks(node_id=identity.node_id, chunks=chunks, now=now)
    except Exception:
        logger.exception("log of task %s by node %s failed", chunks[0].task_uid, identity.name)
        return {chunks[0].task_uid: min(chunk.offset for chunk in chunks)}


def _desired_unless(identity: NodeIdentity, held: int | None) -> Desired | None:
    """The desired state, unless its version is the one ``held``. None also when the node was removed.

    The version is read before and after the tasks: were it older than they are, an agent that got two answers
    with one version could take the older one for the newer, and give up a task that it should start.
    """
    version = fleet_reads.desired_version(identity.node_id)
    while version is not None and version != held:
        specs = tuple(filter(None, map(_spec, workload_reads.desired_tasks(identity.node_id))))
        after = fleet_reads.desired_version(identity.node_id)
        if after == version:
            return Desired(version=version, tasks=specs)
        version = after
    return None


def _spec(task: DesiredTask) -> TaskSpec | None:
    """None: the row makes no sense on the wire. The node then sees a foreign container there, which it leaves alone."""
    try:
        return translate.task_spec(task)
    except (ValueError, KeyError, TypeError):
        logger.exception("task %s cannot be sent to its node", task.task_uid)
        return None
