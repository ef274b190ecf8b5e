"""Environments."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from aistation.api.authentication import actor_of
from aistation.api.fields import Nothing
from aistation.api.idempotency import idempotent
from aistation.api.pagination import PageQuery
from aistation.api.serializers.workloads import EnvironmentInput, EnvironmentOutput, EventOutput, resources_of
from aistation.api.views.base import (
    GONE,
    ApiView,
    answer_detail,
    answer_page,
    listing,
    operation,
    read_body,
    read_query,
)
from aistation.api.views.jobs import WorkloadQuery, filtered, positions
from aistation.catalog.selectors import list_profiles
from aistation.core.clock import now
from aistation.core.errors import FieldError, InvalidInputError
from aistation.environments import services
from aistation.tenancy.policy import Action, Actor
from aistation.workloads import selectors
from aistation.workloads import services as workload_services
from aistation.workloads.lifecycle import Kind, Reason
from aistation.workloads.submission import Submission

_RESOURCES = ("cpu_milli", "memory_mib", "gpus", "gpu_slices", "gpu_memory_mib", "gpu_compute_milli", "gpu_model")


class Environments(ApiView):
    @operation(
        "listEnvironments",
        "Environments of your groups, newest first",
        query=WorkloadQuery,
        answer=listing(EnvironmentOutput),
    )
    def get(self, request: Request) -> Response:
        query = read_query(request, WorkloadQuery)
        rows = filtered(selectors.list_workloads(actor_of(request), Kind.ENVIRONMENT), query)
        return answer_page(request, rows, ("-id",), query, EnvironmentOutput, context=positions)

    @operation(
        "createEnvironment", "Ask for an environment", body=EnvironmentInput, answer=EnvironmentOutput, status=201
    )
    @idempotent
    def post(self, request: Request) -> Response:
        actor = actor_of(request)
        submission = _submission(actor, read_body(request, EnvironmentInput))
        made = services.create_environment(actor=actor, submission=submission, now=now())
        return answer_detail(_shown(actor, made.uid), 201)


class EnvironmentDetail(ApiView):
    @operation("getEnvironment", "One environment", answer=EnvironmentOutput)
    def get(self, request: Request, environment: str) -> Response:
        return answer_detail(_shown(actor_of(request), environment))

    @operation("deleteEnvironment", "Take an environment away; its folders stay", answer=GONE, status=204)
    def delete(self, request: Request, environment: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_workload(actor, environment, Kind.ENVIRONMENT, Action.CONTROL_WORKLOAD)
        services.delete_environment(workload_id=found.pk, now=now(), actor=actor)
        return Response(status=204)


class EnvironmentStart(ApiView):
    @operation("startEnvironment", "Start a stopped environment again", answer=EnvironmentOutput)
    @idempotent
    def post(self, request: Request, environment: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_workload(actor, environment, Kind.ENVIRONMENT, Action.CONTROL_WORKLOAD)
        read_body(request, Nothing)
        services.start_environment(workload_id=found.pk, now=now(), actor=actor)
        return answer_detail(_shown(actor, environment))


class EnvironmentStop(ApiView):
    @operation("stopEnvironment", "Stop an environment; again changes nothing", answer=EnvironmentOutput)
    @idempotent
    def post(self, request: Request, environment: str) -> Response:
        actor = actor_of(request)
        found = selectors.access_workload(actor, environment, Kind.ENVIRONMENT, Action.CONTROL_WORKLOAD)
        read_body(request, Nothing)
        workload_services.request_stop(workload_id=found.pk, reason=Reason.USER_STOPPED, now=now(), actor=actor)
        return answer_detail(_shown(actor, environment))


class EnvironmentEvents(ApiView):
    @operation(
        "listEnvironmentEvents",
        "What happened to an environment, oldest first",
        query=PageQuery,
        answer=listing(EventOutput),
    )
    def get(self, request: Request, environment: str) -> Response:
        found = selectors.access_workload(actor_of(request), environment, Kind.ENVIRONMENT)
        events = selectors.list_transitions(found.pk)
        return answer_page(request, events, ("id",), read_query(request, PageQuery), EventOutput)


def _shown(actor: Actor, uid: str) -> Any:
    environment = selectors.access_workload(actor, uid, Kind.ENVIRONMENT)
    return EnvironmentOutput(environment, context=positions([environment])).data


def _submission(actor: Actor, value: dict[str, Any]) -> Submission:
    """The resources come from the request or from a profile, not from both; the profile may name the pool."""
    profile_name = value.pop("profile", None)
    lifetime_s = value.pop("lifetime_s")
    if profile_name is None:
        resources = value.pop("resources", None) or {}
    else:
        if "resources" in value:
            message = "Give a profile or resources, not both."
            raise InvalidInputError(message, errors=[FieldError("profile", "ambiguous", message)])
        profile = list_profiles(actor, Kind.ENVIRONMENT).filter(name=profile_name).first()
        if profile is None:
            message = f"There is no profile {profile_name} for environments."
            raise InvalidInputError(message, errors=[FieldError("profile", "unknown_profile", message)])
        resources = {name: getattr(profile, name) for name in _RESOURCES}
        value["pool"] = value["pool"] or (profile.pool.name if profile.pool else None)
    return Submission(
        kind=Kind.ENVIRONMENT,
        **{**value, "resources": resources_of(resources), "preemptible": False, "time_limit_s": lifetime_s},
    )
