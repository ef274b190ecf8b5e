"""Many short jobs through the whole of a running quickstart, and what they cost.

    make quickstart ARGS="--gpus simulated:4x8xV100-32GB --runtime process"
    python -m bench.throughput --data-dir .aistation --jobs 1000 --clients 4

Prints durable submits a second, jobs a second from the first submit to the last end, and the CPU time of each program
for one job (from /proc, so that it means the same on a busy machine). Exit status 1 unless each job succeeded once.
"""

import argparse
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from bench.jobs import Api

TICKS: Final = os.sysconf("SC_CLK_TCK")
PROGRAMS: Final = {
    "uvicorn": "web",
    "celeryd": "worker",
    "celery": "worker",
    "beat": "beat",
    "gpuagent": "agents",
    "postgres": "postgres",
    "envoy": "gateway",
    "valkey": "valkey",
    "quickstart": "supervisor",
}


def submit(data_dir: Path, names: list[str], failures: list[str]) -> None:
    api = Api(data_dir)
    for name in names:
        body = {
            "name": name,
            "image": "shell",
            "command": ["true"],
            "resources": {"cpu_milli": 500, "memory_mib": 256, "gpus": 1, "gpu_slices": 1},
        }
        answer = api.session.post(api.base + "/jobs", json=body, timeout=60)
        if answer.status_code != 201:
            failures.append(f"{answer.status_code} {answer.text[:200]}")


def cpu_seconds() -> dict[str, float]:
    """CPU time of all processes below this session's supervisor, by program; of ended children too."""
    spent: dict[str, float] = defaultdict(float)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            program = next((name for word, name in PROGRAMS.items() if word in command), None)
            if program is not None:
                own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
                is_spawner = program == "agents"  # whose children are the jobs
                spent[program] += (own + (children if is_spawner else 0)) / TICKS
    return spent


def run(arguments: argparse.Namespace) -> int:
    api = Api(arguments.data_dir)
    tag = f"throughput-{int(time.time())}"
    names = [f"{tag}-{number}" for number in range(arguments.jobs)]
    failures: list[str] = []
    before, begun = cpu_seconds(), time.monotonic()
    clients = [
        threading.Thread(target=submit, args=(arguments.data_dir, names[first :: arguments.clients], failures))
        for first in range(arguments.clients)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    submitted = time.monotonic() - begun
    deadline = time.monotonic() + arguments.timeout
    while time.monotonic() < deadline:
        left = api.get("/queue", limit=1)["results"] or [
            job for state in ("scheduled", "pulling", "starting", "running")
            for job in api.get("/jobs", limit=1, state=state)["results"]
        ]  # fmt: skip
        if not left:
            break
        time.sleep(0.3)
    elapsed = time.monotonic() - begun
    jobs = api.all_jobs(tag)
    last = max((job["ended_at"] or "" for job in jobs), default="")
    states, attempts = Counter(job["state"] for job in jobs), Counter(job["attempt"] for job in jobs)
    print(f"{arguments.jobs} jobs of true from {arguments.clients} clients")
    print(f"submitted in {submitted:.1f} s: {arguments.jobs / submitted:.0f} a second")
    print(f"all over after {elapsed:.1f} s (last end {last}): {arguments.jobs / elapsed:.1f} jobs a second")
    print(f"states {dict(states)}, attempts {dict(attempts)}")
    after = cpu_seconds()
    costs = {name: (after[name] - before.get(name, 0)) * 1000 / arguments.jobs for name in after}
    print("CPU ms a job:", ", ".join(f"{name} {cost:.1f}" for name, cost in sorted(costs.items(), key=lambda c: -c[1])))
    for failure in failures[:5]:
        print("FAILED:", failure)
    return 0 if states == Counter(succeeded=arguments.jobs) and set(attempts) == {1} else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path(".aistation"))
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=600)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
