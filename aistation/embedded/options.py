"""The options of `quickstart`."""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SIMULATED: Final = re.compile(r"simulated:(\d{1,3})x(\d{1,3})x([A-Za-z0-9][A-Za-z0-9_.-]{0,63})")
_MOST_NODES: Final = 64
DEFAULT_PORT: Final = 8000
DEFAULT_DATA_DIR: Final = ".aistation"


@dataclass(frozen=True, slots=True)
class Gpus:
    """What each local node is told about its cards, and how many local nodes there are."""

    nodes: int
    per_node: str  # in the words of the agent's --gpus
    simulated: bool


@dataclass(frozen=True, slots=True)
class Options:
    port: int
    data_dir: Path
    gpus: Gpus
    runtime: str  # auto, docker or process


def parse_gpus(text: str) -> Gpus:
    """``auto``, ``nvml`` or ``simulated:<nodes>x<cards>x<model>``. ArgumentTypeError on anything else."""
    if text in ("auto", "nvml"):
        return Gpus(nodes=1, per_node=text, simulated=False)
    found = _SIMULATED.fullmatch(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is none of auto, nvml, simulated:4x8xV100-32GB")
    nodes, cards, model = int(found[1]), int(found[2]), found[3]
    if not 1 <= nodes <= _MOST_NODES or cards < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: 1 to {_MOST_NODES} nodes with at least one card each")
    return Gpus(nodes=nodes, per_node=f"simulated:{cards}x{model}", simulated=True)


def parse_port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=parse_port, default=DEFAULT_PORT, help="of the portal, on 127.0.0.1")
    parser.add_argument("--data-dir", type=Path, default=Path(DEFAULT_DATA_DIR), help="keeps everything, also logs")
    parser.add_argument(
        "--gpus",
        type=parse_gpus,
        default="auto",
        metavar="auto|nvml|simulated:NxMxMODEL",
        help="cards of this machine, or N nodes with M simulated cards each, e.g. simulated:4x8xV100-32GB",
    )
    parser.add_argument(
        "--runtime",
        choices=["auto", "docker", "process"],
        default="auto",
        help="where workloads run: Docker containers, or plain processes, which isolate nothing",
    )


def parse(arguments: list[str]) -> Options:
    """The options of a command line; ends the program with a message when it is not valid."""
    parser = argparse.ArgumentParser(prog="manage.py quickstart", description="Run all of AIStation on this machine.")
    add_arguments(parser)
    values = parser.parse_args(arguments)
    return Options(port=values.port, data_dir=values.data_dir.resolve(), gpus=values.gpus, runtime=values.runtime)
