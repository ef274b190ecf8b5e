"""How long one pure decision takes, by load, queue length and cluster size.

    python bench/decide.py [--json OUT] [--check] [--only NAME]

The cluster has the make-up of a public trace: 1,213 nodes with 6,212 cards of six models. Each row is one
`decide` on a fresh snapshot; ``--check`` ends with 1 when a row with a goal misses it.
"""

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scheduler.decide import decide
from scheduler.mix import observe
from scheduler.model import Device, Kind, Limit, Mix, Node, Pool, Request, Resources, Scope, Snapshot

HARDWARE = (  # nodes, CPU milli, MiB, cards, model, MiB of a card
    (549, 96_000, 393_216, 8, "V100-32GB", 32_510),
    (387, 104_000, 524_288, 2, "T4", 15_360),
    (107, 16_000, 122_880, 2, "P100", 16_280),
    (39, 128_000, 786_432, 8, "A100-40GB", 40_960),
    (28, 32_000, 131_072, 4, "V100-16GB", 16_160),
    (22, 64_000, 262_144, 2, "P100", 16_280),
    (21, 96_000, 786_432, 8, "V100-32GB", 32_510),
    (19, 8_000, 32_768, 1, "V100-16GB", 16_160),
    (17, 96_000, 393_216, 4, "T4", 15_360),
    (9, 48_000, 376_832, 4, "V100-32GB", 32_510),
    (7, 64_000, 262_144, 8, "V100-16GB", 16_160),
    (3, 8_000, 61_440, 1, "P100", 16_280),
    (2, 8_000, 61_440, 2, "P100", 16_280),
    (2, 128_000, 1_048_576, 1, "A10", 23_028),
    (1, 82_000, 344_064, 8, "V100-16GB", 16_160),
)
GROUPS, USERS, SHAPES = 20, 200, 50


@dataclass(frozen=True)
class Case:
    """One row of the table. ``load``: full (no card free), empty, or mixed (cards in part taken)."""

    name: str
    load: str
    queued: int
    clusters: int = 1
    shapes: int = SHAPES
    goal_s: float | None = None
    learned: bool = False  # the mix is known


@dataclass(frozen=True)
class Measured:
    name: str
    load: str
    queued: int
    nodes: int
    cards: int
    shapes: int
    seconds: float
    cpu_seconds: float
    placed: int
    placements_per_s: int
    peak_rss_mib: int
    goal_s: float | None


CASES = (
    Case("full", "full", 10_000, goal_s=1.0),
    Case("full, jobs x2", "full", 20_000),
    Case("full, jobs x4", "full", 40_000),
    Case("full, nodes x2", "full", 10_000, clusters=2),
    Case("full, nodes x4", "full", 10_000, clusters=4),
    Case("full, both x2", "full", 20_000, clusters=2),
    Case("full, both x4", "full", 40_000, clusters=4),
    Case("full, 1000 shapes", "full", 10_000, shapes=1_000),
    Case("mixed", "mixed", 10_000, goal_s=5.0),
    Case("placeable", "empty", 10_000, goal_s=5.0),
    Case("full, learned", "full", 10_000, goal_s=1.0, learned=True),
    Case("placeable, learned", "empty", 10_000, goal_s=5.0, learned=True),
    Case("placeable, jobs x1/2", "empty", 5_000),
    Case("placeable, jobs x1/4", "empty", 2_500),
    Case("placeable, nodes x2", "empty", 10_000, clusters=2),
    Case("placeable, nodes x4", "empty", 10_000, clusters=4),
    Case("placeable, both x2", "empty", 20_000, clusters=2),
    Case("placeable, both x4", "empty", 40_000, clusters=4),
    Case("placeable, 1000 shapes", "empty", 10_000, shapes=1_000),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--check", action="store_true", help="end with 1 when a goal is missed")
    parser.add_argument("--only", help="rows whose name contains this")
    arguments = parser.parse_args()
    rows = []
    print(
        f"{'case':24}{'queued':>8}{'nodes':>7}{'cards':>7}{'shapes':>8}{'seconds':>9}{'of CPU':>8}"
        f"{'placed':>8}{'a second':>10}{'goal s':>8}"
    )
    for case in CASES:
        if arguments.only and arguments.only not in case.name:
            continue
        row = measure(case)
        rows.append(row)
        goal = "" if row.goal_s is None else f"{row.goal_s:.1f}"
        print(
            f"{row.name:24}{row.queued:>8}{row.nodes:>7}{row.cards:>7}{row.shapes:>8}{row.seconds:>9.3f}{row.cpu_seconds:>8.3f}"
            f"{row.placed:>8}{row.placements_per_s:>10}{goal:>8}",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    missed = [row.name for row in rows if row.goal_s is not None and row.cpu_seconds > row.goal_s]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return int(bool(missed) and arguments.check)


def measure(case: Case) -> Measured:
    snapshot = make_snapshot(case)
    started, started_cpu = time.perf_counter(), time.process_time()
    plan = decide(snapshot)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu
    assert len(plan.placements) + len(plan.waiting) == case.queued
    return Measured(
        name=case.name,
        load=case.load,
        queued=case.queued,
        nodes=len(snapshot.nodes),
        cards=sum(len(node.devices) for node in snapshot.nodes),
        shapes=len({request.resources for request in snapshot.pending}),
        seconds=round(seconds, 4),
        cpu_seconds=round(cpu_seconds, 4),
        placed=len(plan.placements),
        placements_per_s=round(len(plan.placements) / cpu_seconds),
        peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        goal_s=case.goal_s,
    )


def make_snapshot(case: Case) -> Snapshot:
    rng = random.Random(case.name)
    shapes = list(_shapes(case, rng))
    pending = tuple(
        Request(
            id=f"job-{number:06}",
            kind=Kind.JOB,
            group_id=f"group-{number % GROUPS}",
            user_id=f"user-{number % USERS}",
            pool_id="pool",
            resources=rng.choice(shapes),
            priority=rng.choice((40, 50, 60)),
            queued_at_us=rng.randrange(10**9),
        )
        for number in range(case.queued)
    )
    pool = Pool("pool", frozenset(Kind), slices_per_gpu=8)
    mix = observe(Mix("pool"), ((request.resources, 1) for request in pending), ended=case.queued)
    mixes = (mix,) if case.learned else ()
    return Snapshot(1, 10**9, (pool,), tuple(_nodes(case, rng)), tuple(_scopes()), pending, mixes=mixes)


def _shapes(case: Case, rng: random.Random) -> Iterator[Resources]:
    """Distinct needs. Where all is to be placed they are small enough for the cluster to hold them."""
    for number in range(case.shapes):
        cpu_milli, memory_mib = 1_000 + 10 * number, 2_048 + 64 * (number % 100)
        gpus = 0 if case.load == "empty" and number % 5 == 0 else 1
        gpu_slices: int | None = 1 + number % 3
        if case.load != "empty" and number % 2:
            gpus, gpu_slices = rng.choice((1, 1, 1, 2, 4, 8)), None
        elif case.load == "empty" and number % 10 == 1:
            gpus, gpu_slices = rng.choice((1, 1, 2)), None
        yield Resources(cpu_milli, memory_mib, gpus, gpu_slices if gpus else None)


def _nodes(case: Case, rng: random.Random) -> Iterator[Node]:
    serial = 0
    for _ in range(case.clusters):
        for count, cpu_milli, memory_mib, cards, model, card_mib in HARDWARE:
            for _ in range(count):
                serial += 1
                devices = tuple(_device(f"GPU-{serial:05}-{card}", model, card_mib, case, rng) for card in range(cards))
                free = sum(device.free_milli for device in devices) / (1000 * cards) if case.load != "empty" else 1
                free_cpu, free_memory = int(cpu_milli * (0.2 + 0.8 * free)), int(memory_mib * (0.2 + 0.8 * free))
                yield Node(f"node-{serial:05}", "pool", cpu_milli, memory_mib, free_cpu, free_memory, devices)


def _device(device_id: str, model: str, memory_mib: int, case: Case, rng: random.Random) -> Device:
    taken = {"full": 8, "empty": 0, "mixed": rng.choice((0, 0, 3, 5, 8))}[case.load]
    free_mib = 0 if taken == 8 else memory_mib - taken * ((memory_mib - 512) // 8)
    return Device(device_id, model, memory_mib, free_mib, 1000 - 125 * taken)


def _scopes() -> Iterator[Scope]:
    """Limits that are looked at and never reached, so that rows of the table differ in load alone."""
    plenty = Limit(limit=10**12)
    for group in range(GROUPS):
        yield Scope(f"g{group}", f"group-{group}", None, "pool", plenty, plenty, plenty, plenty, plenty)
        yield Scope(f"g{group}-all", f"group-{group}", None, None, plenty, plenty, plenty)
    for user in range(USERS):
        yield Scope(f"u{user}", f"group-{user % GROUPS}", f"user-{user}", "pool", plenty, plenty, plenty)


if __name__ == "__main__":
    sys.exit(main())
