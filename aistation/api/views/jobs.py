"""Jobs."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from aistation.api.authentication import actor_of
from aistation.api.fields import Choice, Nothing, Text
from aistation.api.idempotency import idempotent
from aistation.api.pagination import PageQuery
from aistation.api.serializers.workloads import (
    STATES,
    DryRunOutput,
    EventOutput,
    JobChangeInput,
    JobInput,
    JobOutput,
    resources_of,
)
from aistation.api.throttling import limit_rate
from aistation.api.views.base import (
    ApiView,
    answer_detail,
    answer_page,
    listing,
    operation,
    read_body,
    read_query,
    represent,
    require_match,
)
from aistation.core.clock import now
from aistation.jobs import services
from aistation.scheduling.dryrun import dry_run
from aistation.tenancy.policy import Action, Actor
from aistation.workloads import selectors
from aistation.workloads import services as workload_services
from aistation.workloads.lifecycle import Kind, Reason
from aistation.workloads.submission import Submission


class WorkloadQuery(PageQuery):
    """Filters of jobs and of environments. Several states are separated by commas."""

    state = Text(200, required=False, help_text="One of " + ", ".join(STATES) + "; several with commas.")
    group = Text(63, required=False)
    user = Text(63, required=False)
    pool = Text(63, required=False)
    name = Text(128, required=False, help_text="Part of the name, whatever the case.")

    def validate_state(self, value: str) -> list[str]:
        choice = Choice(STATES)
        return [choice.run_validation(state) for state in value.split(",")]


def filtered(rows: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
    words = {name: query.get(name) for name in ("group", "user", "pool", "name")}
    return selectors.narrowed(rows, selectors.Filter(states=query.get("state"), **words))


def positions(rows: list[Any]) -> dict[str, Any]:
    """What a page of workloads needs besides its rows."""
    return {"positions": selectors.queue_positions(rows)}


class Jobs(ApiView):
    @operation("listJobs", "Jobs of your groups, newest first", query=WorkloadQuery, answer=listing(JobOutput))
    def get(self, request: Request) -> Response:
        query = read_query(request, WorkloadQuery)
        jobs = filtered(selectors.list_workloads(actor_of(request), Kind.JOB), query)
        return answer_page(request, jobs, ("-id",), query, JobOutput, context=positions)

    @operation("submitJob", "Submit a job", body=JobInput, answer=JobOutput, status=201)
    @idempotent
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        submission = _submission(read_body(request, JobInput))
        job = selectors.as_created(services.submit_job(actor=actor, submission=submission, now=now()))
        return answer_detail(_represented(job), 201)


class JobDryRun(ApiView):
    @operation("dryRunJob", "What would happen if the job were submitted now", body=JobInput, answer=DryRunOutput)
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        limit_rate(actor, "dry-run", 120)
        submission = _submission(read_body(request, JobInput))
        return Response(DryRunOutput(dry_run(actor=actor, submission=submission, now=now())).data)


class JobDetail(ApiView):
    @operation("getJob", "One job", answer=JobOutput)
    def get(self, request: Request, job: str) -> Response:
        return answer_detail(_shown(actor_of(request), job))

    @operation("changeJob", "Change a job that is not over", body=JobChangeInput, answer=JobOutput)
    @transaction.atomic
    def patch(self, request: Request, job: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_workload(actor, job, Kind.JOB, Action.CONTROL_WORKLOAD)
        change = services.JobChange(**read_body(request, JobChangeInput))
        require_match(request, lambda: _shown(actor, job))
        services.change_job(workload_id=found.pk, change=change, now=now(), actor=actor)
        return answer_detail(_shown(actor, job))


class JobCancel(ApiView):
    @operation("cancelJob", "End a job; again, or when it is over, changes nothing", answer=JobOutput)
    @idempotent
    def post(self, request: Request, job: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_workload(actor, job, Kind.JOB, Action.CONTROL_WORKLOAD)
        read_body(request, Nothing)
        workload_services.request_stop(workload_id=found.pk, reason=Reason.USER_STOPPED, now=now(), actor=actor)
        return answer_detail(_shown(actor, job))


class JobCheckpoint(ApiView):
    @operation("checkpointJob", "Say that the running job has saved its progress", answer=JobOutput)
    @idempotent
    def post(self, request: Request, job: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_workload(actor, job, Kind.JOB, Action.CONTROL_WORKLOAD)
        read_body(request, Nothing)
        workload_services.record_checkpoint(workload_id=found.pk, now=now(), actor=actor)
        return answer_detail(_shown(actor, job))


class JobHold(ApiView):
    @operation("holdJob", "Keep a queued job from starting", answer=JobOutput)
    @idempotent
    def post(self, request: Request, job: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_workload(actor, job, Kind.JOB, Action.CONTROL_WORKLOAD)
        read_body(request, Nothing)
        workload_services.hold(workload_id=found.pk, now=now(), actor=actor)
        return answer_detail(_shown(actor, job))


class JobRelease(ApiView):
    @operation("releaseJob", "Let a held job start again, in its old place", answer=JobOutput)
    @idempotent
    def post(self, request: Request, job: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_workload(actor, job, Kind.JOB, Action.CONTROL_WORKLOAD)
        read_body(request, Nothing)
        workload_services.release(workload_id=found.pk, now=now(), actor=actor)
        return answer_detail(_shown(actor, job))


class JobEvents(ApiView):
    @operation("listJobEvents", "What happened to a job, oldest first", query=PageQuery, answer=listing(EventOutput))
    def get(self, request: Request, job: str) -> Response:
        found = selectors.access_workload(actor_of(request), job, Kind.JOB)
        events = selectors.list_transitions(found.pk)
        return answer_page(request, events, ("id",), read_query(request, PageQuery), EventOutput)


def _shown(actor: Actor, uid: str) -> Any:
    job = selectors.access_workload(actor, uid, Kind.JOB)
    return _represented(job)


def _represented(job: Any) -> dict[str, Any]:
    return represent(JobOutput, [job], positions([job]))[0]


def _submission(value: dict[str, Any]) -> Submission:
    return Submission(kind=Kind.JOB, **{**value, "resources": resources_of(value["resources"])})
