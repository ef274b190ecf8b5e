"""Envoy's fixed part. Pure: addresses in, configuration out; `embedded` or an operator starts Envoy with it.

One listener for all host names, the portal's web server, and the question to it who may pass. The rest are files in
the watched directory (see `routes`), which `publish` replaces by renaming. A file that Envoy cannot read changes
nothing; it goes on with what it has.

Start Envoy with ``--drain-time-s 1``: that is how long a connection lives on after its gate is gone.
"""

import hashlib
import hmac
from pathlib import Path
from typing import Any, Final

PORTAL: Final = "portal"  # the name by which the listener asks for its routes
WEB: Final = "web"  # the cluster of the portal
AUTHORIZE_PATH: Final = "/internal/authorize"  # the path that was asked for follows
SECRET_HEADER: Final = "x-aistation-gateway"  # noqa: S105 - its name
ENVIRONMENT_HEADER: Final = "x-aistation-environment"  # in the answer: where the request goes
AUTHORIZATION_FILTER: Final = "envoy.filters.http.ext_authz"
TYPE: Final = "type.googleapis.com/envoy."
DRAIN_TIME_S: Final = 1
_EXTENSIONS: Final = f"{TYPE}extensions"

ASKED_HEADERS: Final = (
    "accept",
    "cookie",
    "origin",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-websocket-version",
)
"""What the portal is shown of a request when it is asked whether it may pass; host, method and path always."""
_OURS: Final = (
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-server",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
)
_OUR_PREFIXES: Final = ("x-aistation-", "x-auth-", "x-envoy-")
"""Headers that say where a request comes from, or steer Envoy: nobody outside may set them."""
_COUNTERS: Final = (
    r"cluster\.[^.]*\.upstream_(rq_(total|time|active|timeout|pending_active|[1-5]xx)|cx_(active|total|connect_fail))"
    r"|cluster\.[^.]*\.membership_(healthy|total)"
    r"|http\.portal\.(downstream_(rq_(total|active|[1-5]xx)|cx_(active|total))|ext_authz\..*|rds\..*)"
    r"|cluster_manager\.cds\..*|listener_manager\..*|server\.(live|uptime|memory_allocated)"
)
_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="refresh" content="2"><title>{title}</title>
<style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:20vh auto;padding:0 1rem}}</style></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""
_AWAY: Final = "It was stopped, or it has only just started. This page tries again every two seconds."
_SILENT: Final = "It is starting, or busy. This page tries again every two seconds."
_AWAY_PROBLEM: Final = (
    '{"type": "about:blank", "title": "Not found", "status": 404, "code": "environment_not_running",'
    ' "detail": "This environment is not running."}\n'
)


def gateway_secret(secret_key: str) -> str:
    """What the gateway shows the web server to be believed. Known to these two only."""
    return hmac.new(secret_key.encode(), b"aistation.ingress.gateway", hashlib.sha256).hexdigest()


def bootstrap(
    *,
    listen: tuple[str, int],
    web: dict[str, Any],
    admin: dict[str, Any],
    watched: Path,
    secret: str,
    trusted_proxies: int = 0,
) -> dict[str, Any]:
    """Envoy's static configuration. ``web`` and ``admin`` are addresses in Envoy's words.

    ``trusted_proxies``: how many of ours stand before it, whose X-Forwarded-* are believed. The result holds
    ``secret``: keep the file to the gateway's user.
    """
    return {
        "node": {"id": "gateway", "cluster": "gateway"},
        "admin": {"address": admin},
        "bootstrap_extensions": [
            {
                "name": "envoy.bootstrap.internal_listener",
                "typed_config": {"@type": f"{_EXTENSIONS}.bootstrap.internal_listener.v3.InternalListener"},
            }
        ],
        "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": [{"safe_regex": {"regex": _COUNTERS}}]}}},
        "dynamic_resources": {"cds_config": _file(watched, "cds.json"), "lds_config": _file(watched, "lds.json")},
        "static_resources": {
            "listeners": [_listener(listen, watched, secret, trusted_proxies)],
            "clusters": [_web_cluster(web)],
        },
    }


def _web_cluster(address: dict[str, Any]) -> dict[str, Any]:
    plenty = {
        "priority": "DEFAULT",
        "max_connections": 100_000,
        "max_pending_requests": 10_000,
        "max_requests": 100_000,
    }
    return {
        "name": WEB,
        "type": "STATIC" if "pipe" in address else "STRICT_DNS",
        "connect_timeout": "2s",
        "circuit_breakers": {"thresholds": [plenty]},  # pages, agents and followers hold one each
        "typed_extension_protocol_options": http_options(idle_timeout="4s"),  # the server closes idle ones after 5 s
        "load_assignment": {
            "cluster_name": WEB,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }


def http_options(*, idle_timeout: str) -> dict[str, Any]:
    """HTTP/1.1 to a server, dropping idle connections before the server does."""
    return {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": f"{_EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions",
            "common_http_protocol_options": {"idle_timeout": idle_timeout},
            "explicit_http_config": {"http_protocol_options": {}},
        }
    }


def _listener(listen: tuple[str, int], watched: Path, secret: str, trusted_proxies: int) -> dict[str, Any]:
    host, port = listen
    manager = _connection_manager(watched, secret, trusted_proxies)
    return {
        "name": PORTAL,
        "address": {"socket_address": {"address": host, "port_value": port}},
        "enable_reuse_port": False,  # a second gateway on this port must fail, not share it
        "socket_options": [{"description": "SO_KEEPALIVE", "level": 1, "name": 9, "int_value": 1}],
        "filter_chains": [
            {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        ],
    }


def _connection_manager(watched: Path, secret: str, trusted_proxies: int) -> dict[str, Any]:
    removed = _OURS if trusted_proxies else (*_OURS, "x-forwarded-for", "x-forwarded-proto")
    return {
        "@type": f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": PORTAL,
        "rds": {"route_config_name": PORTAL, "config_source": _file(watched, "rds.json")},
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "use_remote_address": True,
        "xff_num_trusted_hops": trusted_proxies,
        "normalize_path": False,  # what a container is asked for is its own business
        "server_header_transformation": "PASS_THROUGH",
        "common_http_protocol_options": {
            "headers_with_underscores_action": "DROP_HEADER",  # X_A and X-A are the same to a WSGI server
            "idle_timeout": "3600s",
        },
        "http_protocol_options": {"accept_http_10": True},
        "max_request_headers_kb": 64,
        "request_headers_timeout": "15s",
        "stream_idle_timeout": "0s",  # a quiet terminal stays open
        "early_header_mutation_extensions": [
            {
                "name": "envoy.http.early_header_mutation.header_mutation",
                "typed_config": {
                    "@type": f"{_EXTENSIONS}.http.early_header_mutation.header_mutation.v3.HeaderMutation",
                    "mutations": [
                        *({"remove": name} for name in removed),
                        *({"remove_on_match": {"key_matcher": {"prefix": prefix}}} for prefix in _OUR_PREFIXES),
                    ],
                },
            }
        ],
        "local_reply_config": {"mappers": _local_replies()},
        "http_filters": [
            _authorization(secret),
            {
                "name": "envoy.filters.http.router",
                "typed_config": {
                    "@type": f"{_EXTENSIONS}.filters.http.router.v3.Router",
                    "suppress_envoy_headers": True,
                },
            },
        ],
    }


def _authorization(secret: str) -> dict[str, Any]:
    return {
        "name": AUTHORIZATION_FILTER,
        "typed_config": {
            "@type": f"{_EXTENSIONS}.filters.http.ext_authz.v3.ExtAuthz",
            "status_on_error": {"code": "ServiceUnavailable"},
            "allowed_headers": {"patterns": [{"exact": name} for name in ASKED_HEADERS]},
            "http_service": {
                "server_uri": {"uri": "http://web", "cluster": WEB, "timeout": "10s"},
                "path_prefix": AUTHORIZE_PATH,
                "authorization_request": {"headers_to_add": [{"key": SECRET_HEADER, "value": secret}]},
                "authorization_response": {
                    "allowed_upstream_headers": {
                        "patterns": [{"exact": name} for name in ("authorization", "cookie", ENVIRONMENT_HEADER)]
                    }
                },
            },
            "clear_route_cache": True,  # the answer names the cluster
        },
    }


def _local_replies() -> list[dict[str, Any]]:
    """What Envoy answers for an environment that cannot be reached: pages that try again, and words for programs."""
    for_people = {"header_filter": {"header": {"name": "accept", "string_match": {"contains": "text/html"}}}}
    is_away = {"response_flag_filter": {"flags": ["NC"]}}
    is_silent = {"response_flag_filter": {"flags": ["UF", "UC", "UH"]}}
    return [
        _local_reply([is_away, for_people], _page("This environment is not running", _AWAY), "text/html"),
        _local_reply([is_away], _AWAY_PROBLEM, "application/problem+json"),
        _local_reply([is_silent, for_people], _page("This environment does not answer yet", _SILENT), "text/html"),
    ]


def _local_reply(filters: list[dict[str, Any]], body: str, content_type: str) -> dict[str, Any]:
    return {
        "filter": {"and_filter": {"filters": filters}} if len(filters) > 1 else filters[0],
        "body": {"inline_string": body},
        "body_format_override": {
            "text_format_source": {"inline_string": "%LOCAL_REPLY_BODY%"},
            "content_type": content_type,
        },
    }


def _page(title: str, text: str) -> str:
    return _PAGE.format(title=title, text=text)


def _file(directory: Path, name: str) -> dict[str, Any]:
    return {"path_config_source": {"path": str(path_of(directory, name))}, "resource_api_version": "V3"}


def path_of(directory: Path, name: str) -> Path:
    """Each watched file is alone in its folder: of what Envoy has not yet noticed, the kernel then tells it once."""
    return directory / name.partition(".")[0] / name
