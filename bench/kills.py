"""kill -9 of every program of a running quickstart while jobs are submitted and run.

    make quickstart ARGS="--gpus simulated:4x8xV100-32GB --runtime process"
    python -m bench.kills --data-dir .aistation --jobs 300

Each job writes its id into a file. In the end each job that was acknowledged must have succeeded, and its id must be
in the file once: none lost, none run twice. A submit without an answer is sent again with its Idempotency-Key.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import requests

from bench.jobs import Api


def submit(api: Api, tag: str, numbers: range, seen: Path, acknowledged: dict[str, str], deadline: float) -> None:
    for number in numbers:
        body = {
            "name": f"{tag}-{number}",
            "image": "shell",
            "command": ["sh", "-c", f"echo {number} >> {seen}; sleep 0.2"],
            "resources": {"cpu_milli": 500, "memory_mib": 256, "gpus": 1, "gpu_slices": 1},
        }
        while time.monotonic() < deadline:
            try:
                answer = api.session.post(
                    api.base + "/jobs", json=body, timeout=10, headers={"Idempotency-Key": f"{tag}-{number}"}
                )
            except requests.RequestException:
                time.sleep(0.2)
                continue
            if answer.status_code == 201:
                acknowledged[str(number)] = answer.json()["id"]
                break
            if answer.status_code < 500:
                sys.exit(f"{answer.status_code} {answer.text}")
            time.sleep(0.2)


def programs(data_dir: Path) -> dict[str, int]:
    """Process numbers by program, as the supervisor wrote them."""
    return {file.stem: int(file.read_text().split()[0]) for file in sorted((data_dir / "run").glob("*.pid"))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path(".aistation"))
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--every", type=float, default=4.0, help="seconds between two kills")
    parser.add_argument("--timeout", type=float, default=300)
    arguments = parser.parse_args()
    api, tag = Api(arguments.data_dir), f"kills-{int(time.time())}"
    deadline = time.monotonic() + arguments.timeout
    acknowledged: dict[str, str] = {}
    with tempfile.NamedTemporaryFile("r", prefix="kills-") as file:
        seen = Path(file.name)
        clients = [
            threading.Thread(
                target=submit,
                args=(Api(arguments.data_dir), tag, range(first, arguments.jobs, 4), seen, acknowledged, deadline),
            )
            for first in range(4)
        ]
        for client in clients:
            client.start()
        for name in programs(arguments.data_dir):
            time.sleep(arguments.every)
            pid = programs(arguments.data_dir).get(name)
            if pid:
                print(f"kill -9 {name} ({pid}), {len(acknowledged)} acknowledged")
                os.kill(pid, signal.SIGKILL)
        for client in clients:
            client.join()
        jobs = wait_for_ends(api, tag, deadline)
        ran = Counter(seen.read_text().split())
    by_id = {job["id"]: job for job in jobs}
    lost = [number for number, uid in acknowledged.items() if uid not in by_id or by_id[uid]["state"] != "succeeded"]
    never = [number for number in acknowledged if not ran[number]]
    twice = [number for number, times in ran.items() if times > 1]
    print(f"{len(acknowledged)} of {arguments.jobs} acknowledged, states {dict(Counter(job['state'] for job in jobs))}")
    print(f"not succeeded {lost}, never ran {never}, ran twice {twice}, rows {len(jobs)}")
    return 1 if lost or never or twice or len(jobs) != len(acknowledged) else 0


def wait_for_ends(api: Api, tag: str, deadline: float) -> list[dict[str, object]]:
    ended = {"succeeded", "failed", "cancelled", "timed_out"}
    while True:
        try:
            jobs = api.all_jobs(tag)
            if all(job["state"] in ended for job in jobs) or time.monotonic() > deadline:
                return jobs
        except requests.RequestException:
            if time.monotonic() > deadline:
                raise
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
