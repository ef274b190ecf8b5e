"""The programs of the control plane as children: each is forked with everything loaded, so it is up at once."""

import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from aistation.embedded.layout import Layout
from aistation.embedded.options import Gpus
from aistation.embedded.process import Child, bind_to_parent

_LOADED_BEFORE_FORKING: Final = (
    "aistation.asgi",
    "aistation.celery_app",
    "aistation.embedded.bootstrap",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.concurrency.prefork",
    "channels_redis.pubsub",
    "django.core.cache.backends.redis",
    "django.core.management.commands.migrate",
    "kombu.transport.redis",
    "uvicorn.lifespan.off",
    "uvicorn.logging",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)
_SECRET_VARIABLES: Final = ("AISTATION_SECRET_KEY", "AISTATION_DATABASE_URL", "AISTATION_REDIS_URL")


def load() -> None:
    """Import what the programs need, once for all of them. Opens no connection and starts no thread."""
    import django  # noqa: PLC0415 - the settings are read now, when the environment is complete

    django.setup()
    for name in _LOADED_BEFORE_FORKING:
        importlib.import_module(name)
    from django.urls import get_resolver  # noqa: PLC0415

    from aistation.celery_app import app  # noqa: PLC0415

    app.loader.import_default_modules()
    app.finalize()
    _ = get_resolver().url_patterns


def listen(path: Path) -> socket.socket:
    """The web server's socket. We hold it open, so that callers wait while the server starts again."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(2048)
    return listener


def web(listener: socket.socket, layout: Layout) -> Child:
    def serve() -> None:
        import uvicorn  # noqa: PLC0415 - loaded already; the module here stays free of it

        _name("uvicorn aistation.asgi:application")
        config = uvicorn.Config(
            "aistation.asgi:application",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            forwarded_allow_ips="*",  # only the gateway can reach the socket
            timeout_graceful_shutdown=5,
        )
        uvicorn.Server(config).run(sockets=[listener])

    return Child("web", serve, log=layout.log("web"), grace_s=8, keep_descriptors=(listener.fileno(),))


def worker(layout: Layout, processes: int = 2) -> Child:
    def work() -> None:
        from celery import signals  # noqa: PLC0415

        from aistation.celery_app import app  # noqa: PLC0415

        _name("celery -A aistation.celery_app worker")
        signals.worker_process_init.connect(_end_with_the_worker, weak=False)
        quick_start = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        app.worker_main(["worker", "-c", str(processes), "-l", "INFO", *quick_start])

    return Child("worker", work, log=layout.log("worker"), grace_s=15)


def beat(layout: Layout) -> Child:
    def tick() -> None:
        from aistation.celery_app import app  # noqa: PLC0415

        _name("celery -A aistation.celery_app beat")
        app.Beat(scheduler="celery.beat.Scheduler", loglevel="INFO", quiet=True).run()  # ticks need no memory

    return Child("beat", tick, log=layout.log("beat"), grace_s=5)


def agent(name: str, *, server: str, gpus: Gpus, runtime: str, layout: Layout) -> Child:
    """The agent of one local node. It gets none of the control plane's secrets."""
    state = layout.node(name)
    private = {key: value for key, value in os.environ.items() if key not in _SECRET_VARIABLES}
    path = os.pathsep.join([str(Path(sys.executable).parent), private.get("PATH", os.defpath)])
    return Child(
        f"agent-{name}",
        [
            *(sys.executable, "-m", "gpuagent"),
            *("--server", server),
            *("--token-file", str(state / "join-token")),
            *("--name", name),
            *("--state-dir", str(state)),
            *("--data-root", str(layout.root / "folders")),
            *("--runtime", runtime),
            *("--gpus", gpus.per_node),
            *("--address", "127.0.0.1"),
            *("--recipes-dir", str(layout.root / "recipes")),
            "--end-processes",
        ],
        log=layout.log(f"agent-{name}"),
        environment={**private, "PATH": path},
    )


def once(name: str, work: Callable[[], Mapping[str, Any]], layout: Layout, answer_to: int) -> Child:
    """A step that ends by itself and writes its answer as JSON to an open file."""

    def run() -> None:
        import json  # noqa: PLC0415

        _name(f"aistation {name}")
        with os.fdopen(answer_to, "w") as answer:
            json.dump(dict(work()), answer)

    return Child(name, run, log=layout.log(name), keep_descriptors=(answer_to,))


def _name(title: str) -> None:
    """What `ps` shows."""
    from setproctitle import setproctitle  # noqa: PLC0415

    setproctitle(title)


def _end_with_the_worker(**_: Any) -> None:
    bind_to_parent(signal.SIGKILL)
