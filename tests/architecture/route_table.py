"""Every route and method with the status for each role: the rule is in the policy, here is what must come of it.

Columns: a stranger, a member of another group, then of the thing's group a viewer, a member, the owner (a member),
a group admin, and last a platform admin. A new route is added here or the suite fails.
"""

from dataclasses import dataclass
from typing import Any, Final

COLUMNS: Final = ("stranger", "other", "viewer", "member", "owner", "group_admin", "platform_admin")


@dataclass(frozen=True)
class Row:
    """One method of a route: the status of each role, with a body that is right."""

    method: str
    statuses: tuple[int, ...]
    body: Any = None


def row(method: str, statuses: str, body: Any = None) -> Row:
    """``"401 200*6"``: the last number may be repeated with a star."""
    numbers: list[int] = []
    for part in statuses.split():
        status, _, times = part.partition("*")
        numbers += [int(status)] * int(times or 1)
    assert len(numbers) == len(COLUMNS), (method, statuses)
    return Row(method, tuple(numbers), body)


EVERYBODY: Final = "401 200*6"
IN_THE_GROUP: Final = "401 404 200*5"
CONTROLS: Final = "401 404 403 403 200*3"
PLATFORM: Final = "401 403*5 200"
JOB: Final = {"name": "x", "image": "shell", "group": "vision", "resources": {"gpus": 1}}
ENVIRONMENT: Final = {"name": "x", "image": "shell", "group": "vision"}
IMAGE: Final = {"name": "new", "reference": "new:1", "kinds": ["job"]}
PROFILE: Final = {"name": "new", "kinds": ["job"], "resources": {"gpus": 1}}
LENDING: Final = {"name": "new", "lender": "default", "borrower": "other"}
RESERVE: Final = {"name": "new", "pool": "default", "slices": 8}

API: Final[dict[str, list[Row]]] = {
    "/api/v1/me": [row("GET", EVERYBODY)],
    "/api/v1/tokens": [row("GET", EVERYBODY), row("POST", "401 201*6", {"name": "new"})],
    "/api/v1/tokens/{token_id}": [row("DELETE", "401 404*3 204 404*2")],
    "/api/v1/users": [row("GET", PLATFORM), row("POST", "401 403*5 201", {"username": "new"})],
    "/api/v1/users/{username}": [
        row("GET", PLATFORM),
        row("PATCH", PLATFORM, {}),
        row("DELETE", "401 403*5 409"),
    ],
    "/api/v1/groups": [row("GET", EVERYBODY), row("POST", "401 403*5 201", {"name": "new"})],
    "/api/v1/groups/{group}": [row("GET", IN_THE_GROUP), row("DELETE", "401 404 403*4 409")],
    "/api/v1/groups/{group}/members": [
        row("GET", IN_THE_GROUP),
        row("POST", "401 404 403*3 200*2", {"username": "bob"}),
    ],
    "/api/v1/groups/{group}/members/{username}": [row("DELETE", "401 404 403*3 204*2")],
    "/api/v1/groups/{group}/quotas": [row("GET", IN_THE_GROUP), row("PUT", "401 404 403*4 200", [])],
    "/api/v1/groups/{group}/users/{username}/quotas": [
        row("GET", IN_THE_GROUP),
        row("PUT", "401 404 403*3 200*2", []),
    ],
    "/api/v1/pools": [row("GET", EVERYBODY), row("POST", "401 403*5 201", {"name": "new", "kinds": ["job"]})],
    "/api/v1/pools/{pool}": [row("GET", EVERYBODY), row("PATCH", PLATFORM, {})],
    "/api/v1/join-tokens": [row("GET", PLATFORM), row("POST", "401 403*5 201", {"pool": "default"})],
    "/api/v1/join-tokens/{join_token_id}": [row("DELETE", "401 403*5 204")],
    "/api/v1/nodes": [row("GET", EVERYBODY)],
    "/api/v1/lending": [row("GET", EVERYBODY), row("POST", "401 403*5 201", LENDING)],
    "/api/v1/lending/{rule}": [
        row("GET", EVERYBODY),
        row("PATCH", PLATFORM, {"keep_free_cards": 1}),
        row("DELETE", "401 403*5 204"),
    ],
    "/api/v1/reserves": [row("GET", EVERYBODY), row("POST", "401 403*5 201", RESERVE)],
    "/api/v1/reserves/{reserve}": [
        row("GET", EVERYBODY),
        row("PATCH", PLATFORM, {"slices": 9}),
        row("DELETE", "401 403*5 204"),
    ],
    "/api/v1/nodes/{node}": [
        row("GET", EVERYBODY),
        row("PATCH", PLATFORM, {"labels": ["rack=7"]}),
        row("DELETE", "401 403*5 409"),
    ],
    "/api/v1/nodes/{node}/cordon": [row("POST", PLATFORM)],
    "/api/v1/nodes/{node}/uncordon": [row("POST", PLATFORM)],
    "/api/v1/nodes/{node}/drain": [row("POST", PLATFORM)],
    "/api/v1/nodes/{node}/write-off": [row("POST", "401 403*5 409")],
    "/api/v1/gpus": [row("GET", EVERYBODY)],
    "/api/v1/images": [row("GET", EVERYBODY), row("POST", "401 403*5 201", IMAGE)],
    "/api/v1/images/{image}": [
        row("GET", IN_THE_GROUP),
        row("PATCH", "401 404 403*4 200", {}),
        row("DELETE", "401 404 403*4 204"),
    ],
    "/api/v1/profiles": [row("GET", EVERYBODY), row("POST", "401 403*5 201", PROFILE)],
    "/api/v1/profiles/{profile}": [row("GET", EVERYBODY), row("DELETE", "401 403*5 204")],
    "/api/v1/folders": [
        row("GET", EVERYBODY),
        row("POST", "401 201*6", {"name": "new"}),
        row("POST", "401 400 403 201*4", {"name": "new", "group": "vision"}),
    ],
    "/api/v1/folders/{folder}": [row("GET", IN_THE_GROUP)],
    "/api/v1/jobs": [row("GET", EVERYBODY), row("POST", "401 400 403 201*4", JOB)],
    "/api/v1/jobs/dry-run": [row("POST", "401 400 403 200*4", JOB)],
    "/api/v1/jobs/{job}": [row("GET", IN_THE_GROUP), row("PATCH", CONTROLS, {"priority": 60})],
    "/api/v1/jobs/{job}/cancel": [row("POST", CONTROLS)],
    "/api/v1/jobs/{job}/checkpoint": [row("POST", "401 404 403 403 409*3")],
    "/api/v1/jobs/{job}/hold": [row("POST", CONTROLS)],
    "/api/v1/jobs/{job}/release": [row("POST", "401 404 403 403 409*3")],
    "/api/v1/jobs/{job}/events": [row("GET", IN_THE_GROUP)],
    "/api/v1/jobs/{job}/logs": [row("GET", CONTROLS)],
    "/api/v1/environments": [row("GET", EVERYBODY), row("POST", "401 400 403 201*4", ENVIRONMENT)],
    "/api/v1/environments/{environment}": [row("GET", IN_THE_GROUP), row("DELETE", "401 404 403 403 204*3")],
    "/api/v1/environments/{environment}/start": [row("POST", "401 404 403 403 409*3")],
    "/api/v1/environments/{environment}/stop": [row("POST", CONTROLS)],
    "/api/v1/environments/{environment}/events": [row("GET", IN_THE_GROUP)],
    "/api/v1/environments/{environment}/logs": [row("GET", CONTROLS)],
    "/api/v1/queue": [row("GET", EVERYBODY)],
    "/api/v1/usage": [row("GET", EVERYBODY)],
    "/api/v1/audit": [row("GET", PLATFORM)],
    "/api/v1/metrics": [row("GET", PLATFORM)],
    "/api/schema/": [row("GET", EVERYBODY)],
    "/metrics": [row("GET", PLATFORM)],
}
"""Called with each role's token."""

OUTSIDE_THE_ROLES: Final = {
    "/api/{anything}": "missing: 401 to a stranger, 404 to everybody else (tested here)",
    "/api/docs/": "a page for sessions (tests/aistation/api/test_documents.py)",
    "/healthz": "yes or no, to everybody (tests/aistation/fleet)",
    "/readyz": "yes or no, to everybody (tests/aistation/fleet)",
}
"""Routes whose answer does not depend on a role in a group, with the place of their tests."""

OTHER_EDGES: Final = {
    "aistation.agents": "/agent/v1/: node credentials only; a person's token or session opens nothing",
    "aistation.ingress": "Envoy and the way into an environment (tests/aistation/ingress)",
    "aistation.portal": "pages (page_table.py)",
}
