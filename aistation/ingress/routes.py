"""Envoy's changing part. Pure: environments in, the content of three files out.

=============  ====================================================================================
``cds.json``   for each environment a cluster named like it, and one ``<uid>.node``: its container
``lds.json``   for each environment a gate ``<uid>.<generation>``, an inner listener between the two
``rds.json``   host names
=============  ====================================================================================

An environment's requests go host name -> cluster -> gate -> node. The gate is there to be taken away: Envoy closes
what runs through a removed listener, WebSockets too, and nothing else does that. A new generation is a new gate, so
raising it cuts an environment's open connections, and only those.
"""

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aistation.ingress.envoy import AUTHORIZATION_FILTER, PORTAL, TYPE, WEB, http_options

Resource = dict[str, Any]
Files = Mapping[str, Sequence[Resource]]

OWN_PATHS: Final = "/.aistation"  # on each environment's host: ours, not the container's
CLOSED_PATH: Final = f"{OWN_PATHS}/closed"
ORDER: Final = ("cds.json", "lds.json", "rds.json")  # what is named comes before what names it


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
        "cds.json": [cluster for route in ordered for cluster in clusters(route)],
        "lds.json": [gate(route) for route in ordered],
        "rds.json": [route_configuration(ordered, names)],
    }


def with_leaving(wanted: Files, present: Files) -> Files:
    """``wanted``, with the clusters and gates that the present host names still lead to.

    Host names go first; one write later nothing leads to the rest and it goes too. So no request meets a host name
    whose cluster is gone.
    """
    staying = {cluster["name"] for cluster in wanted["cds.json"]}
    leaving = {
        host["name"]
        for configuration in present.get("rds.json", ())
        for host in configuration.get("virtual_hosts", ())
        if host["name"] not in staying
    }
    return {
        **wanted,
        "cds.json": [*wanted["cds.json"], *_of(leaving, present.get("cds.json", ()))],
        "lds.json": [*wanted["lds.json"], *_of(leaving, present.get("lds.json", ()))],
    }


def _of(uids: Collection[str], resources: Iterable[Resource]) -> list[Resource]:
    return [resource for resource in resources if resource["name"].partition(".")[0] in uids]


def clusters(route: Route) -> tuple[Resource, Resource]:
    """The environment as a service of ours, which is counted under its name; and its container on the node."""
    through_gate = {"server_listener_name": _gate_name(route), "endpoint_id": route.uid}
    service = _cluster(route.uid, {"envoy_internal_address": through_gate}) | {
        "transport_socket": {
            "name": "envoy.transport_sockets.internal_upstream",
            "typed_config": {
                "@type": f"{TYPE}extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
                "transport_socket": {
                    "name": "envoy.transport_sockets.raw_buffer",
                    "typed_config": {"@type": f"{TYPE}extensions.transport_sockets.raw_buffer.v3.RawBuffer"},
                },
            },
        },
        "typed_extension_protocol_options": http_options(idle_timeout="4s"),
    }
    node = _cluster(_node_name(route), {"socket_address": {"address": route.address, "port_value": route.port}}) | {
        "type": "STATIC" if _is_ip(route.address) else "STRICT_DNS",
        "upstream_connection_options": {"tcp_keepalive": {"keepalive_time": 60, "keepalive_interval": 20}},
    }
    return service, node


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


def route_configuration(routes: Sequence[Route], names: Names) -> Resource:
    """All host names: running environments, their domain for those that do not run, the portal for every other."""
    return {
        "@type": f"{TYPE}config.route.v3.RouteConfiguration",
        "name": PORTAL,
        "ignore_port_in_host_matching": True,
        "request_headers_to_remove": ["x-envoy-external-address"],  # said in X-Forwarded-For already
        "virtual_hosts": [
            *(_environment_host(route, names.domain) for route in routes),
            {"name": "closed", "domains": [f"*.{names.domain}"], "routes": [_own_paths_route(), _closed_route()]},
            {
                "name": PORTAL,
                "domains": ["*", *sorted(name for name in set(names.portal) if name != "*")],
                "routes": [*map(_refuse, ("/internal", OWN_PATHS)), _portal_route()],
            },
        ],
    }


def _environment_host(route: Route, domain: str) -> Resource:
    return {
        "name": route.uid,
        "domains": [f"{route.uid}.{domain}"],
        "routes": [
            _own_paths_route(),
            {"match": {"prefix": "/"}, "route": _to(route.uid)},
        ],
    }


def _own_paths_route() -> Resource:
    return {"match": {"path_separated_prefix": OWN_PATHS}, "route": _to_web(), **_unasked()}


def _closed_route() -> Resource:
    rewrite = {"pattern": {"regex": "^/.*$"}, "substitution": CLOSED_PATH}
    return {"match": {"prefix": "/"}, "route": {**_to_web(), "regex_rewrite": rewrite}, **_unasked()}


def _portal_route() -> Resource:
    return {"match": {"prefix": "/"}, "route": _to_web(), **_unasked()}


def _refuse(prefix: str) -> Resource:
    reply = {"status": 404, "body": {"inline_string": "There is no such page.\n"}}
    return {"match": {"path_separated_prefix": prefix}, "direct_response": reply, **_unasked()}


def _unasked() -> Resource:
    """The portal decides about its own pages itself."""
    disabled = {"@type": f"{TYPE}extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute", "disabled": True}
    return {"typed_per_filter_config": {AUTHORIZATION_FILTER: disabled}}


def _to_web() -> Resource:
    return _to(WEB)


def _to(cluster: str) -> Resource:
    return {
        "cluster": cluster,
        "timeout": "0s",  # logs are followed for hours, notebooks run longer
        "retry_policy": {"retry_on": "connect-failure,refused-stream,reset-before-request", "num_retries": 3},
    }


def _cluster(name: str, address: Resource) -> Resource:
    return {
        "@type": f"{TYPE}config.cluster.v3.Cluster",
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
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
