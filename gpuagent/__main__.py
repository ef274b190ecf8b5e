"""``python -m gpuagent --server URL --token-file F``: the agent of this node, until SIGTERM or SIGINT."""

import argparse
import logging
import signal
import socket
import sys
from pathlib import Path
from typing import Final

from gpuagent.agent import Agent
from gpuagent.config import Config, RuntimeChoice, parse_gpus, parse_user
from gpuagent.identity import StateDirInUseError
from gpuagent.store import StoreVersionError

_EXIT_CANNOT_START: Final = 2


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # wake.py says what matters
    try:
        agent = Agent(_config(arguments))
    except (StateDirInUseError, StoreVersionError, ValueError, OSError) as error:
        sys.stderr.write(f"gpuagent: {error}\n")
        return _EXIT_CANNOT_START
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    agent.run()
    return 0


def _config(arguments: list[str]) -> Config:
    options = _parser().parse_args(arguments)
    state_dir = options.state_dir.resolve()
    return Config(
        server=options.server,
        token_file=options.token_file,
        node_name=options.name,
        state_dir=state_dir,
        data_root=(options.data_root or state_dir / "data").resolve(),
        runtime=options.runtime,
        gpus=options.gpus,
        address=options.address,
        container_user=options.container_user,
        images_dir=options.images_dir.resolve() if options.images_dir else None,
        recipes_dir=options.recipes_dir.resolve() if options.recipes_dir else None,
        end_processes=options.end_processes,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpuagent", description="AIStation's agent of one node.")
    add = parser.add_argument
    add("--server", required=True, metavar="URL", help="the control plane, e.g. https://aistation.example.com")
    add("--token-file", required=True, type=Path, metavar="FILE", help="join token, read when the node enrols")
    add("--name", default=socket.gethostname(), help="the node's name (default: this host's)")
    add("--state-dir", type=Path, default=Path("/var/lib/aistation-agent"), metavar="DIR")
    add("--data-root", type=Path, metavar="DIR", help="where folders live (default: STATE-DIR/data)")
    add("--runtime", type=RuntimeChoice, choices=list(RuntimeChoice), default=RuntimeChoice.AUTO)
    add("--gpus", type=parse_gpus, default=parse_gpus("auto"), metavar="auto|nvml|none|simulated:8xV100-32GB")
    add("--address", default="127.0.0.1", help="where the gateway reaches this node; ports are published there only")
    add(
        "--container-user",
        type=parse_user,
        default="1000:1000",
        metavar="UID:GID|image",
        help="who containers run as (default: 1000:1000, never root)",
    )
    add("--images-dir", type=Path, default=_default_images(), metavar="DIR", help="recipes of the process runtime")
    add("--recipes-dir", type=Path, metavar="DIR", help="where they are installed (default: STATE-DIR/recipes)")
    add("--end-processes", action="store_true", help="end plain processes when told to stop; containers always go on")
    return parser


def _default_images() -> Path | None:
    images = Path(__file__).parents[1] / "images"
    return images if images.is_dir() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
