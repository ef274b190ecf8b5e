"""Envoy's changing part. Pure: environments in, the content of three files out.

=============  ====================================================================================
``lds.json``   for each environment a gate ``<uid>.<generation>``, an inner listener
``cds.json``   for each environment a cluster named like it, and one ``<uid>.node``: its container
``rds.json``   host names; the same whatever runs
=============  ====================================================================================

An environment's request goes to the portal's question first, whose answer names the cluster; then cluster -> gate ->
node. The gate is there to be taken away: Envoy closes what runs through a removed listener, WebSockets too, and
nothing else does that. A new generation is a new gate, so raising it cuts an environment's open connections, and only
those.
"""

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aistation.ingress.envoy import AUTHORIZATION_FILTER, ENVIRONMENT_HEADER, PORTAL, TYPE, WEB, http_options

Resource = dict[str, Any]
Files = Mapping[str, Sequence[Resource]]

OWN_PATHS: Final = "/.aistation"  # on each environment's host: ours, not the container's
ORDER: Final = ("lds.json", "cds.json", "rds.json")  # a gate is there before its cluster leads to it


@dataclass(frozen=True, slots=True)
class Names:
    """Host names: the portal's own ones, and the domain below which each environment has its name."""

    portal: Collection[str]
    domain: str


@dataclass(frozen=True, slots=True)
class Route:
    """A running environment: where its container listens. ``generation`` rises when access was taken away."""

    uid: str
    address: str
    port: int
    generation: int = 0


def files(routes: Iterable[Route], names: Names) -> Files:
    """The resources of each file for exactly these environments."""
    ordered = sorted(routes, key=lambda route: route.uid)
    return {
        "lds.json": [gate(route) for route in ordered],
        "cds.json": [cluster for route in ordered for cluster in clusters(route)],
        "rds.json": [route_configuration(names)],
    }


def clusters(route: Route) -> tuple[Resource, Resource]:
    """The environment as a service of ours, which is counted under its name; and its container on the node."""
    through_gate = {"server_listener_name": _gate_name(route), "endpoint_id": route.uid}
    service = _cluster(route.uid, {"envoy_internal_address": through_gate}) | {
        "typed_extension_protocol_options": http_options(idle_timeout="4s"),  # many servers close idle ones after 5 s
    }
    node = _cluster(_node_name(route), {"socket_address": {"address": route.address, "port_value": route.port}}) | {
        "upstream_connection_options": {"tcp_keepalive": {"keepalive_time": 60}}
    }
    return service, node if _is_ip(route.address) else node | {"type": "STRICT_DNS"}


def gate(route: Route) -> Resource:
    """What an environment's connections run through, and end with."""
    return {
        "@type": f"{TYPE}config.listener.v3.Listener",
        "name": _gate_name(route),
        "internal_listener": {},
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.tcp_proxy",
                        "typed_config": {
                            "@type": f"{TYPE}extensions.filters.network.tcp_proxy.v3.TcpProxy",
                            "stat_prefix": "gate",
                            "cluster": _node_name(route),
                            "idle_timeout": "0s",  # its default of an hour would end quiet terminals
                        },
                    }
                ]
            }
        ],
    }


def route_configuration(names: Names) -> Resource:
    """Below the domain of environments the portal decides who goes where; every other host name is the portal's."""
    return {
        "@type": f"{TYPE}config.route.v3.RouteConfiguration",
        "name": PORTAL,
        "ignore_port_in_host_matching": True,
        "request_headers_to_remove": ["x-envoy-external-address"],  # said in X-Forwarded-For already
        "virtual_hosts": [
            {"name": "environments", "domains": [f"*.{names.domain}"], "routes": [_environment_route()]},
            {
                "name": PORTAL,
                "domains": ["*", *sorted(name for name in set(names.portal) if name != "*")],
                "routes": [*map(_refuse, ("/internal", OWN_PATHS)), _portal_route()],
            },
        ],
    }


def _environment_route() -> Resource:
    """An environment without a cluster does not run, or only just does: for its visitors it is not found."""
    action = {
        "cluster_header": ENVIRONMENT_HEADER,
        "cluster_not_found_response_code": "NOT_FOUND",
        **_patient("connect-failure,refused-stream"),
    }
    return {
        "match": {"prefix": "/"},
        "route": action,
        "request_headers_to_remove": [ENVIRONMENT_HEADER],
    }


def _portal_route() -> Resource:
    action = {"cluster": WEB, **_patient("connect-failure,refused-stream,reset-before-request")}
    return {"match": {"prefix": "/"}, "route": action, **_unasked()}


def _patient(retry_on: str) -> Resource:
    """Logs are followed for hours and notebooks run longer, so nothing ends for having taken its time."""
    return {"timeout": "0s", "retry_policy": {"retry_on": retry_on, "num_retries": 3}}


def _refuse(prefix: str) -> Resource:
    reply = {"status": 404, "body": {"inline_string": "There is no such page.\n"}}
    return {"match": {"path_separated_prefix": prefix}, "direct_response": reply, **_unasked()}


def _unasked() -> Resource:
    """The portal decides about its own pages itself."""
    disabled = {"@type": f"{TYPE}extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute", "disabled": True}
    return {"typed_per_filter_config": {AUTHORIZATION_FILTER: disabled}}


def _cluster(name: str, address: Resource) -> Resource:
    """A static cluster of one address."""
    return {
        "@type": f"{TYPE}config.cluster.v3.Cluster",
        "name": name,
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }


def _gate_name(route: Route) -> str:
    return f"{route.uid}.{route.generation}"


def _node_name(route: Route) -> str:
    return f"{route.uid}.node"


def _is_ip(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True
