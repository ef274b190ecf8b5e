"""Jobs end to end over REST, on a running quickstart.

    make quickstart ARGS="--gpus simulated:4x8xV100-32GB --runtime process"
    python bench/jobs.py --data-dir .aistation burst --jobs 200              # whole cards, sleep 1
    python bench/jobs.py --data-dir .aistation burst --jobs 200 --slices     # one slice each
    python bench/jobs.py --data-dir .aistation latency --jobs 30             # submit to running, one at a time
    python bench/jobs.py --data-dir .aistation latency --image IMAGE --docker-run REFERENCE   # beside `docker run`

`burst` submits in one loop and samples all jobs until the last has ended; it checks what must hold at every sample:
never more running than there are cards (or slices: eight to a card, within the memory that the card reports), and
that priorities start in order. Exit status 1 when something did not hold.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import requests

SIMPLE = ["--init", "--memory", "256m", "--cpus", "0.5", "--cap-drop", "ALL"]
SAME = [*SIMPLE, "--network", "aistation", "--memory-swap", "256m", "--pids-limit", "4096", "--shm-size", "128m"]
SAME += ["--security-opt", "no-new-privileges", "--user", "1000:1000", "--log-driver", "local"]
HOLDING = {"scheduled", "pulling", "starting", "running", "stopping"}


class Api:
    """The REST API of a quickstart, with the token of its credentials file."""

    def __init__(self, data_dir: Path) -> None:
        credentials = json.loads((data_dir / "credentials.json").read_text())
        self.base = credentials["url"].rstrip("/") + "/api/v1"
        self.session = requests.Session()
        self.session.headers["Authorization"] = "Bearer " + credentials["token"]

    def get(self, path: str, **query: Any) -> Any:
        answer = self.session.get(self.base + path, params=query, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: Any = None) -> Any:
        answer = self.session.post(self.base + path, json=body, timeout=30)
        if answer.status_code >= 400:
            sys.exit(f"{path}: {answer.status_code} {answer.text}")
        return answer.json()

    def all_jobs(self, after: str) -> list[dict[str, Any]]:
        """Jobs whose name begins with ``after``, all pages."""
        found: list[dict[str, Any]] = []
        page = self.get("/jobs", limit=200, name=after)
        while True:
            found += page["results"]
            if not page["next"]:
                return found
            answer = self.session.get(page["next"], timeout=30)
            answer.raise_for_status()
            page = answer.json()


def job(name: str, *, slices: bool, seconds: str, priority: int = 50) -> dict[str, Any]:
    resources: dict[str, Any] = {"cpu_milli": 500, "memory_mib": 256, "gpus": 1}
    if slices:
        resources["gpu_memory_mib"] = 4096
    return {
        "name": name,
        "image": "shell",
        "command": ["sleep", seconds] if seconds != "0" else ["true"],
        "resources": resources,
        "priority": priority,
    }


def check_sample(jobs: list[dict[str, Any]], memory: dict[str, int]) -> list[str]:
    """What one sample of all jobs breaks."""
    held: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in jobs:
        if one["state"] in HOLDING:
            for share in one["gpus"]:
                held[share["uuid"]].append(share)
    problems = []
    for uuid, shares in held.items():
        if sum(share["compute_milli"] for share in shares) > 1000:
            problems.append(f"{uuid}: more than a card of compute")
        if sum(share["memory_mib"] for share in shares) > memory[uuid]:
            problems.append(f"{uuid}: more memory than it reports")
        if len(shares) > 8:
            problems.append(f"{uuid}: {len(shares)} on one card")
    return problems


def burst(api: Api, arguments: argparse.Namespace) -> int:
    tag = f"burst-{int(time.time())}"
    memory = {card["uuid"]: card["memory_mib"] for card in api.get("/gpus", limit=200)["results"]}
    room = len(memory) * (8 if arguments.slices else 1)
    begun = time.monotonic()
    for number in range(arguments.jobs):
        priority = 80 if number % 4 == 3 else 50
        api.post("/jobs", job(f"{tag}-{number}", slices=arguments.slices, seconds=arguments.seconds, priority=priority))
    submitted = time.monotonic()
    problems: set[str] = set()
    most, fullest = 0, Counter[int]()
    while True:
        jobs = api.all_jobs(tag)
        holding = [one for one in jobs if one["state"] in HOLDING]
        most = max(most, len(holding))
        problems.update(check_sample(jobs, memory))
        if len(holding) > room:
            problems.add(f"{len(holding)} hold resources, there is room for {room}")
        per_card = Counter(share["uuid"] for one in holding for share in one["gpus"])
        fullest.update(per_card.values())
        if not holding and not any(one["state"] in ("queued", "held") for one in jobs):
            break
        if time.monotonic() - begun > arguments.timeout:
            problems.add("timed out")
            break
        time.sleep(0.2)
    ended = time.monotonic()
    states = Counter(one["state"] for one in jobs)
    if states != Counter(succeeded=arguments.jobs):
        problems.add(f"not all succeeded: {dict(states)}")
    print(f"{arguments.jobs} jobs: submitted in {submitted - begun:.1f} s, all over after {ended - begun:.1f} s")
    rate = arguments.jobs / (ended - begun)
    print(f"{rate:.1f} jobs/s; at most {most} at once (room for {room}); states {dict(states)}")
    print(f"most on one card at any sample: {max(fullest, default=0)}")
    problems.update(check_priorities(jobs))
    for problem in sorted(problems):
        print("BROKEN:", problem)
    return 1 if problems else 0


def check_priorities(jobs: list[dict[str, Any]]) -> set[str]:
    """Among jobs that were queued together, a higher priority starts first: no low one may start while a high one
    that was there before it had already been waiting for more than a second."""
    broken = set()
    high = sorted((j["queued_at"], j["started_at"]) for j in jobs if j["priority"] == 80 and j["started_at"])
    for low in (j for j in jobs if j["priority"] == 50 and j["started_at"]):
        older = [started for queued, started in high if queued < low["queued_at"]]
        late = [started for started in older if _seconds(started, low["started_at"]) > 1]
        if late:
            broken.add(f"{low['id']} started before {len(late)} older ones of higher priority")
    return broken


def _seconds(later: str, earlier: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def latency(api: Api, arguments: argparse.Namespace) -> int:
    """Submit to process start, by the task's own clock: the job prints the time at which it runs."""
    tag = f"latency-{int(time.time())}"
    waits: list[float] = []
    beside: dict[str, list[float]] = {"all that the agent sets": [], "without its network and hardening": []}
    for number in range(arguments.jobs):
        if arguments.docker_run:
            for times, profile in zip(beside.values(), (SAME, SIMPLE), strict=True):
                times.append(docker_run(arguments.docker_run, profile))
        body = job(f"{tag}-{number}", slices=True, seconds="0")
        body["command"] = ["date", "+%s.%N"]
        if arguments.image:
            body["image"] = arguments.image
        before = time.time()
        uid = api.post("/jobs", body)["id"]
        while api.get(f"/jobs/{uid}")["state"] not in ("succeeded", "failed"):
            time.sleep(0.02)
        log = api.session.get(f"{api.base}/jobs/{uid}/logs", timeout=30).text
        waits.append(float(log.strip()) - before)
    waits.sort()
    middle, worst = statistics.median(waits), waits[int(len(waits) * 0.95) - 1]
    print(f"submit to process start, {len(waits)} jobs on an idle cluster, ms:")
    print(f"p50 {middle * 1000:.0f}, p95 {worst * 1000:.0f}")
    for what, times in beside.items():
        if times:
            run = statistics.median(times)
            print(f"docker run, in turn, with {what}: p50 {run * 1000:.0f}; ours is {(middle - run) * 1000:.0f} more")
    return 0


def docker_run(reference: str, profile: list[str]) -> float:
    """Seconds from the command line to the process."""
    command = ["docker", "run", "--rm", *profile, reference, "date", "+%s.%N"]
    before = time.time()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout) - before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path(".aistation"))
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("burst")
    one.add_argument("--jobs", type=int, default=200)
    one.add_argument("--slices", action="store_true")
    one.add_argument("--seconds", default="1", help="what each job sleeps; 0 runs `true`")
    one.add_argument("--timeout", type=float, default=600)
    one.set_defaults(run=burst)
    two = commands.add_parser("latency")
    two.add_argument("--jobs", type=int, default=30)
    two.add_argument("--image")
    two.add_argument("--docker-run", metavar="REFERENCE", help="time `docker run` of this image in turn")
    two.set_defaults(run=latency)
    arguments = parser.parse_args()
    return int(arguments.run(Api(arguments.data_dir), arguments))


if __name__ == "__main__":
    sys.exit(main())
