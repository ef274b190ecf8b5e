"""A whole scheduling cycle with PostgreSQL: read, decide, write. `python -m bench.cycle [--jobs 10000] [--nodes 32]`.

Starts a PostgreSQL and a Valkey of its own in a temporary directory. Prints the seconds of three cycles: the first
places what fits and writes all reasons, the second finds nothing changed, the third finds eight cards free again.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from aistation.embedded.postgres import Postgres
from aistation.embedded.valkey import Valkey

SHAPES = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=32)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        home.chmod(0o711)
        postgres = Postgres(home / "postgres", log=home / "postgres.log")
        valkey = Valkey(home / "valkey", log=home / "valkey.log", durable=False)
        try:
            postgres.prepare_password()
            postgres.prepare()
            postgres.child.wait_until_ready(60)
            valkey.child.wait_until_ready(60)
            postgres.create_database("aistation")
            os.environ.update(
                DJANGO_SETTINGS_MODULE="aistation.settings.dev",
                AISTATION_SECRET_KEY="bench" * 12,
                AISTATION_DATABASE_URL=postgres.url("aistation"),
                AISTATION_REDIS_URL=valkey.url,
            )
            import django  # noqa: PLC0415 - the settings are known only now

            django.setup()
            run(arguments.jobs, arguments.nodes)
        finally:
            postgres.child.stop()
            valkey.child.stop()


def run(jobs: int, nodes: int) -> None:
    from django.core.management import call_command  # noqa: PLC0415
    from django.db import connection  # noqa: PLC0415

    from aistation.scheduling.cycle import run_cycle  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    fill(jobs, nodes)
    for what in ("first", "nothing changed", "one node free again"):
        begun, cpu = time.perf_counter(), time.process_time()
        cycle = run_cycle()
        took, spent = time.perf_counter() - begun, time.process_time() - cpu
        print(f"{what}: {took:.2f} s ({spent:.2f} s of CPU here), placed {cycle.placed}, waiting {cycle.waiting}")
        if what == "nothing changed":
            finish_on_first_node()
    connection.close()


def fill(jobs: int, nodes: int) -> None:
    from aistation.fleet.models import Device, Node, Pool  # noqa: PLC0415
    from aistation.workloads.models import Transition, Workload  # noqa: PLC0415
    from tests.factories.world import T0, a_node, a_site  # noqa: PLC0415

    site = a_site()
    for number in range(nodes):
        a_node(f"n{number:04}", site.pool)
    assert (Node.objects.count(), Device.objects.count(), Pool.objects.count()) == (nodes, 8 * nodes, 1)

    def job(number: int) -> Any:
        shape = number % SHAPES
        return Workload(
            uid=f"job-{number:012}", kind="job", name="bench", group=site.group, user=site.user, pool=site.pool,
            image=site.image, cpu_milli=500 + 10 * shape, memory_mib=1024, gpus=1 + shape % 4, state="queued",
            submitted_at=T0, queued_at=T0, changed_at=T0, time_limit_s=3600 * (1 + shape % 12),
        )  # fmt: skip

    made = Workload.objects.bulk_create([job(number) for number in range(jobs)], batch_size=2000)
    Transition.objects.bulk_create(
        [Transition(workload=one, attempt=0, event="submit", to_state="queued", actor="x", at=T0) for one in made],
        batch_size=2000,
    )


def finish_on_first_node() -> None:
    from aistation.core.clock import now  # noqa: PLC0415
    from aistation.workloads.models import Task  # noqa: PLC0415
    from aistation.workloads.reports import TaskFacts, record_task_reports  # noqa: PLC0415

    tasks = list(Task.objects.filter(node__name="n0000", settled_at=None))
    reports = [TaskFacts(task.uid, task.nonce, "exited", exit_code=0, log_bytes=0) for task in tasks]
    record_task_reports(node_id=tasks[0].node_id, reports=reports, now=now())


if __name__ == "__main__":
    main()
