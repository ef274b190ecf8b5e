"""How much of a cluster's cards the product's placement can give away, on traces of tasks.

    python bench/placement.py --data DIR [--trace NAME] [--load 130] [--seeds 1-5] [--churn] [--json OUT]

DIR holds the files of the openb traces (Weng et al., "Beware of Fragmentation", USENIX ATC 2023):
``openb_node_list_gpu_node.csv`` and ``openb_pod_list_NAME.csv``. The experiment is theirs: tasks of the trace, then
tasks drawn from it with replacement, arrive on the empty cluster one by one until they have asked for ``--load``
percent of its cards. Each is placed at once or lost; none ends. ``allocated_percent`` is the share of all cards then
given away, the mean over the arrivals whose load rounds to ``--load``.

``--churn``: tasks arrive as a Poisson stream and stay an exponential time instead, so that they ask for ``--load``
percent of the cards in the mean; measured is the mean over time, after warming up.

One pool in the product's default strategy; what is placed goes through the scheduler's own `PoolRoom` and `Search`, and
the mix is learned from nothing but what has arrived. ``refused``: tasks lost although a node had room.
"""

import argparse
import csv
import heapq
import json
import math
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scheduler.capacity import Ask, PoolRoom
from scheduler.filters import room_on
from scheduler.mix import next_refresh, observe
from scheduler.model import WHOLE_CARD_MILLI, Device, Kind, Mix, Node, Pool, Resources, TaskPlacement
from scheduler.search import Search

CARD_MIB = {
    "P100": 16_280,
    "T4": 15_360,
    "V100M16": 16_160,
    "V100M32": 32_510,
    "A10": 23_028,
    "G2": 24_576,
    "G3": 40_960,
}
OTHER_CARD_MIB = 16_384
WARM_UP, MEASURED = 3.0, 4.0  # mean lives of a task


@dataclass(frozen=True)
class Result:
    seed: int
    allocated_percent: float
    arrived: int
    placed: int
    lost: int
    refused: int
    cpu_seconds: float
    wall_seconds: float


class SplitMix64:
    """A small portable generator, so that a workload can be made again in any language from its seed."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & (2**64 - 1)

    def next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return mixed ^ (mixed >> 31)

    def below(self, bound: int) -> int:
        """Uniform in [0, bound), by rejection."""
        limit = 2**64 - 2**64 % bound
        while (drawn := self.next()) >= limit:
            pass
        return drawn % bound

    def uniform(self) -> float:
        """In (0, 1]."""
        return (self.next() + 1) / 2.0**64

    def shuffle(self, rows: list[Any]) -> None:
        for place in range(len(rows) - 1, 0, -1):
            other = self.below(place + 1)
            rows[place], rows[other] = rows[other], rows[place]


class Cluster:
    """One pool that takes tasks one by one, and learns its mix as it goes."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.room = PoolRoom(Pool("pool", frozenset(Kind)), nodes)
        self._index_of = {node.id: index for index, node in enumerate(self.room.nodes)}
        self._found: dict[Resources, tuple[Ask, Search]] = {}
        self._mix = Mix("pool")
        self._unlearned: list[tuple[Resources, int]] = []
        self._ended = 0
        self._seen = 0
        self._learn_at = next_refresh(0)

    def place(self, needs: Resources) -> TaskPlacement | None:
        """Room for one task, or None. The mix knows only what came before."""
        if self._seen >= self._learn_at:
            self._learn()
        self._seen += 1
        self._unlearned.append((needs, 1))
        found = self._found.get(needs)
        if found is None:
            ask = self.room.ask(needs, 1)
            found = self._found[needs] = ask, Search(self.room, ask)
        placed = found[1].place()
        return None if placed is None else placed[0]

    def end(self, needs: Resources, placed: TaskPlacement) -> None:
        self._ended += 1
        found = self._found.get(needs)
        ask = self.room.ask(needs, 1) if found is None else found[0]
        self.room.release(self._index_of[placed.node_id], ask, placed.shares)

    def _learn(self) -> None:
        self._mix = observe(self._mix, self._unlearned, ended=self._ended)
        self._unlearned, self._ended = [], 0
        self._learn_at = next_refresh(self._seen)
        self.room.learn(self._mix)
        self._found.clear()


class Replay:
    """Goes over what was placed a second time, untimed: nothing may be given twice, and no room left unused."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._room = PoolRoom(Pool("pool", frozenset(Kind)), nodes)
        self._index_of = {node.id: index for index, node in enumerate(self._room.nodes)}
        self.refused = 0

    def place(self, needs: Resources, placed: TaskPlacement | None, *, look: bool = True) -> None:
        """``look``: find out whether what was not placed would have fitted."""
        ask = self._room.ask(needs, 1)
        if placed is None:
            self.refused += look and any(room_on(ask, node) for node in self._room.nodes)
            return
        index = self._index_of[placed.node_id]
        node = self._room.nodes[index]
        taken = {share.device_id for share in placed.shares}
        self._room.place(index, ask, [[card for card in node.cards if card.id in taken]], first_rank=0)
        assert min(node.free_cpu_milli, node.free_memory_mib) >= 0, node.id
        assert all(min(card.free_milli, card.free_memory_mib) >= 0 for card in node.cards), node.id

    def end(self, needs: Resources, placed: TaskPlacement) -> None:
        self._room.release(self._index_of[placed.node_id], self._room.ask(needs, 1), placed.shares)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the trace")
    parser.add_argument("--trace", default="default")
    parser.add_argument("--load", type=int, default=130, help="percent of the cards")
    parser.add_argument("--seeds", default="1-5", help="as 1-5 or 1,3")
    parser.add_argument("--churn", action="store_true", help="tasks end")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    arguments = parser.parse_args()
    nodes = load_nodes(arguments.data / "openb_node_list_gpu_node.csv")
    tasks = load_tasks(arguments.data / f"openb_pod_list_{arguments.trace}.csv")
    run = churn if arguments.churn else fill
    results = []
    for seed in seeds_of(arguments.seeds):
        results.append(run(nodes, list(tasks.values()), arguments.load, seed))
        print(f"{arguments.trace} {results[-1]}", flush=True)
    summary = summarise(arguments, results)
    print(json.dumps({key: value for key, value in summary.items() if key != "runs"}))
    if arguments.json:
        arguments.json.write_text(json.dumps(summary, indent=2) + "\n")
    return 0


def summarise(arguments: argparse.Namespace, results: Sequence[Result]) -> dict[str, object]:
    shares = [one.allocated_percent for one in results]
    return {
        "trace": arguments.trace,
        "load": arguments.load,
        "churn": arguments.churn,
        "allocated_percent": round(statistics.mean(shares), 3),
        "allocated_percent_stdev": round(statistics.stdev(shares), 3) if len(shares) > 1 else 0.0,
        "refused": sum(one.refused for one in results),
        "placements_per_s": round(sum(one.placed for one in results) / sum(one.cpu_seconds for one in results)),
        "placements_per_wall_s": round(sum(one.placed for one in results) / sum(one.wall_seconds for one in results)),
        "runs": [asdict(one) for one in results],
    }


def fill(nodes: Sequence[Node], tasks: list[Resources], load: int, seed: int) -> Result:
    """Tasks that never end."""
    capacity = capacity_of(nodes)
    arrivals, rng = inflate(tasks, capacity * load // 100, seed)
    order = list(in_order(nodes, rng))
    cluster = Cluster(order)
    wall, cpu = time.perf_counter(), time.thread_time()
    places = [cluster.place(needs) for needs in arrivals]
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    replay = Replay(order)
    arrived = allocated = 0
    at_load: list[float] = []
    for needs, where in zip(arrivals, places, strict=True):
        replay.place(needs, where)
        arrived += milli_of(needs)
        allocated += milli_of(needs) if where is not None else 0
        if round(100 * arrived / capacity) == load:
            at_load.append(100 * allocated / capacity)
    share = statistics.mean(at_load) if at_load else 100 * allocated / capacity
    lost = places.count(None)
    counts = len(arrivals), len(arrivals) - lost, lost, replay.refused
    return Result(seed, round(share, 3), *counts, round(cpu, 3), round(wall, 3))


def churn(nodes: Sequence[Node], tasks: list[Resources], load: int, seed: int) -> Result:  # noqa: PLR0915 - one run
    """Tasks that come and end, measured once the cluster is in its stride. One in 16 losses is looked at closely."""
    rng = SplitMix64(seed + 777)
    order = list(in_order(nodes, rng))
    cluster = Cluster(order)
    capacity = capacity_of(nodes)
    life = load / 100 * capacity / statistics.mean(milli_of(needs) for needs in tasks)  # in times between arrivals
    begins, ends = WARM_UP * life, (WARM_UP + MEASURED) * life
    running: list[tuple[float, int, Resources, TaskPlacement]] = []
    log: list[tuple[Resources, TaskPlacement | None, bool]] = []  # needs, where, and whether it came or went
    now = area = 0.0
    allocated = lost = 0
    wall, cpu = time.perf_counter(), time.thread_time()
    while now < ends:
        arrives = now - math.log(rng.uniform())
        while running and running[0][0] <= arrives:
            leaves, _, needs, where = heapq.heappop(running)
            area += allocated * max(0.0, min(leaves, ends) - max(now, begins))
            now = leaves
            allocated -= milli_of(needs)
            cluster.end(needs, where)
            log.append((needs, where, False))
        area += allocated * max(0.0, min(arrives, ends) - max(now, begins))
        now = arrives
        needs = tasks[rng.below(len(tasks))]
        stays = -math.log(rng.uniform()) * life
        found = cluster.place(needs)
        log.append((needs, found, True))
        if found is None:
            lost += 1
        else:
            allocated += milli_of(needs)
            heapq.heappush(running, (now + stays, len(log), needs, found))
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    replay = Replay(order)
    for number, (needs, place, came) in enumerate(log):
        if came:
            replay.place(needs, place, look=number % 16 == 0)
        elif place is not None:
            replay.end(needs, place)
    arrived = sum(came for _, _, came in log)
    share = 100 * area / (MEASURED * life) / capacity
    counts = arrived, arrived - lost, lost, replay.refused
    return Result(seed, round(share, 3), *counts, round(cpu, 3), round(wall, 3))


def inflate(tasks: list[Resources], target_milli: int, seed: int) -> tuple[list[Resources], SplitMix64]:
    """All tasks once, in random order, then tasks drawn with replacement until one would pass the target; too many
    lose random tasks instead. The generator goes on with the order of the nodes."""
    rng = SplitMix64(seed)
    arrivals = list(tasks)
    rng.shuffle(arrivals)
    total = sum(map(milli_of, arrivals))
    while total > target_milli:
        total -= milli_of(arrivals.pop(rng.below(len(arrivals))))
    while total + milli_of(drawn := tasks[rng.below(len(tasks))]) <= target_milli:
        arrivals.append(drawn)
        total += milli_of(drawn)
    return arrivals, rng


def in_order(nodes: Sequence[Node], rng: SplitMix64) -> Iterator[Node]:
    """The nodes under ids in random order: equals are taken in the order of their ids."""
    shuffled = list(nodes)
    rng.shuffle(shuffled)
    for place, node in enumerate(shuffled):
        name = f"node-{place:05}"
        devices = tuple(replace(device, id=f"{name}-{card}") for card, device in enumerate(node.devices))
        yield replace(node, id=name, devices=devices)


def load_nodes(path: Path) -> list[Node]:
    with path.open() as file:
        return [_node(row) for row in csv.DictReader(file)]


def _node(row: dict[str, str]) -> Node:
    cpu, memory, model = int(row["cpu_milli"]), int(row["memory_mib"]), row["model"]
    size = CARD_MIB.get(model, OTHER_CARD_MIB)
    cards = tuple(Device(f"{row['sn']}-{card}", model, size, size, WHOLE_CARD_MILLI) for card in range(int(row["gpu"])))
    return Node(row["sn"], "pool", cpu, memory, cpu, memory, cards)


def load_tasks(path: Path) -> dict[str, Resources]:
    """By name, in the order of the names."""
    with path.open() as file:
        tasks = {row["name"]: _needs(row) for row in csv.DictReader(file)}
    return dict(sorted(tasks.items()))


def _needs(row: dict[str, str]) -> Resources:
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"] or 0)
    share = milli if gpus and milli < WHOLE_CARD_MILLI else None
    model = (row.get("gpu_spec") or None) if gpus else None
    return Resources(int(row["cpu_milli"]), int(row["memory_mib"]), gpus, gpu_compute_milli=share, gpu_model=model)


def milli_of(needs: Resources) -> int:
    return needs.gpus * (needs.gpu_compute_milli or WHOLE_CARD_MILLI)


def capacity_of(nodes: Iterable[Node]) -> int:
    return sum(len(node.devices) for node in nodes) * WHOLE_CARD_MILLI


def seeds_of(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


if __name__ == "__main__":
    sys.exit(main())
