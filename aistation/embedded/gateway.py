"""Envoy's fixed part: one listener, the portal's web server, and the question to it who may pass.

The rest are files in the watched directory, which the ingress app replaces by renaming: ``cds.json`` (containers) and
``rds.json`` (host names). A file that Envoy cannot read changes nothing; it goes on with what it has.
"""

from pathlib import Path
from typing import Any, Final

ROUTES: Final = "portal"  # the name by which the listener asks for its routes
WEB: Final = "web"  # the cluster of the portal
AUTHORIZE_PATH: Final = "/ingress/authorize"  # the path that was asked for follows
IDENTITY_HEADER: Final = "x-aistation-user"
_TYPE: Final = "type.googleapis.com/envoy."


def bootstrap(*, listen: tuple[str, int], web: dict[str, Any], admin: dict[str, Any], watched: Path) -> dict[str, Any]:
    """Envoy's static configuration. ``web`` and ``admin`` are addresses in Envoy's words."""
    return {
        "node": {"id": "gateway", "cluster": "gateway"},
        "admin": {"address": admin},
        "dynamic_resources": {"cds_config": _watch(watched, "cds.json")},
        "static_resources": {
            "listeners": [_listener(listen, watched)],
            "clusters": [
                {
                    "name": WEB,
                    "type": "STATIC" if "pipe" in web else "STRICT_DNS",
                    "connect_timeout": "2s",
                    "load_assignment": {
                        "cluster_name": WEB,
                        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": web}}]}],
                    },
                }
            ],
        },
    }


def first_files() -> dict[str, dict[str, Any]]:
    """The watched files of a gateway that has only the portal behind it."""
    return {"cds.json": {"resources": []}, "rds.json": {"resources": [route_configuration([])]}}


def route_configuration(containers: list[dict[str, Any]]) -> dict[str, Any]:
    """All host names: those of the containers (Envoy's virtual hosts), and the portal for every other."""
    return {
        "@type": f"{_TYPE}config.route.v3.RouteConfiguration",
        "name": ROUTES,
        "ignore_port_in_host_matching": True,
        "virtual_hosts": [*containers, {"name": "portal", "domains": ["*"], "routes": [_portal_route()]}],
    }


def _portal_route() -> dict[str, Any]:
    return {
        "match": {"prefix": "/"},
        "route": {
            "cluster": WEB,
            "timeout": "0s",  # logs are followed for hours
            "retry_policy": {"retry_on": "connect-failure,refused-stream", "num_retries": 3},
        },
        "typed_per_filter_config": {
            "envoy.filters.http.ext_authz": {
                "@type": f"{_TYPE}extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute",
                "disabled": True,  # the portal asks for itself
            }
        },
    }


def _listener(listen: tuple[str, int], watched: Path) -> dict[str, Any]:
    host, port = listen
    return {
        "name": "portal",
        "address": {"socket_address": {"address": host, "port_value": port}},
        "enable_reuse_port": False,  # a second gateway on this port must fail, not share it
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": _connection_manager(watched),
                    }
                ]
            }
        ],
    }


def _connection_manager(watched: Path) -> dict[str, Any]:
    extensions = f"{_TYPE}extensions"
    return {
        "@type": f"{extensions}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "portal",
        "rds": {"route_config_name": ROUTES, "config_source": _watch(watched, "rds.json")},
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "use_remote_address": True,
        "normalize_path": True,
        "server_header_transformation": "PASS_THROUGH",
        "request_headers_timeout": "15s",
        "stream_idle_timeout": "0s",  # a quiet terminal stays open
        "early_header_mutation_extensions": [
            {
                "name": "envoy.http.early_header_mutation.header_mutation",
                "typed_config": {
                    "@type": f"{extensions}.http.early_header_mutation.header_mutation.v3.HeaderMutation",
                    "mutations": [{"remove": IDENTITY_HEADER}],  # ours alone to set
                },
            }
        ],
        "http_filters": [
            {
                "name": "envoy.filters.http.ext_authz",
                "typed_config": {
                    "@type": f"{extensions}.filters.http.ext_authz.v3.ExtAuthz",
                    "http_service": {
                        "server_uri": {"uri": "http://web", "cluster": WEB, "timeout": "5s"},
                        "path_prefix": AUTHORIZE_PATH,
                        "authorization_response": {
                            "allowed_upstream_headers": {"patterns": [{"exact": IDENTITY_HEADER}]}
                        },
                    },
                },
            },
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{extensions}.filters.http.router.v3.Router"},
            },
        ],
    }


def _watch(directory: Path, name: str) -> dict[str, Any]:
    return {
        "path_config_source": {"path": str(directory / name), "watched_directory": {"path": str(directory)}},
        "resource_api_version": "V3",
    }
