"""What a list of 50 jobs takes with few and with many jobs stored, on a running quickstart.

    python -m bench.lists --data-dir .aistation --jobs 10000

Copies an ended job until that many are stored (in a data directory that you can throw away), and times the same
requests before and after, each in turn with `GET /me`, which depends on no job and so shows the machine's own mood.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import unquote

import psycopg2

from aistation.embedded.postgres import Postgres
from bench.jobs import Api, job

PATHS = ("/jobs?limit=50", "/jobs?limit=50&state=succeeded", "/jobs?limit=50&name=none-such", "/me")


def p95_ms(api: Api, times: int) -> dict[str, float]:
    took: dict[str, list[float]] = {path: [] for path in PATHS}
    for _ in range(times):
        for path in PATHS:
            begun = time.perf_counter()
            api.get(path)
            took[path].append(time.perf_counter() - begun)
    return {path: statistics.quantiles(values, n=20)[-1] * 1000 for path, values in took.items()}


def stored(data_dir: Path, upto: int) -> int:
    """Copy an ended job until ``upto`` are stored; how many there are then."""
    database = Postgres(data_dir / "postgres", log=Path("/dev/null")).url("aistation")
    user, _, rest = database.removeprefix("postgres://").partition(":")
    password, _, place = rest.partition("@:5432/")
    socket, _, name = place.rpartition("/")
    connection = psycopg2.connect(host=unquote(socket), port=5432, user=user, password=unquote(password), dbname=name)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM workloads_workload WHERE kind = 'job'")
        have = cursor.fetchone()[0]
        cursor.execute(
            "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns"
            " WHERE table_name = 'workloads_workload' AND column_name NOT IN ('id', 'uid')"
        )
        columns = cursor.fetchone()[0]
        cursor.execute(
            f"INSERT INTO workloads_workload (uid, {columns}) SELECT 'job-' || lpad(n::text, 12, '0'), {columns}"  # noqa: S608
            " FROM (SELECT * FROM workloads_workload WHERE kind = 'job' AND state = 'succeeded' LIMIT 1) AS one,"
            " generate_series(%s, %s) AS n",
            [have + 1, upto],
        )
        cursor.execute("ANALYZE workloads_workload")
        cursor.execute("SELECT count(*) FROM workloads_workload WHERE kind = 'job'")
        return int(cursor.fetchone()[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path(".aistation"))
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=100)
    arguments = parser.parse_args()
    api = Api(arguments.data_dir)
    uid = api.post("/jobs", job("lists", slices=True, seconds="0"))["id"]
    while api.get(f"/jobs/{uid}")["state"] != "succeeded":
        time.sleep(0.1)
    few_jobs = stored(arguments.data_dir, 100)
    few = p95_ms(api, arguments.times)
    many_jobs = stored(arguments.data_dir, arguments.jobs)
    many = p95_ms(api, arguments.times)
    for path in PATHS:
        print(f"{path}: p95 {few[path]:.0f} ms with {few_jobs}, {many[path]:.0f} ms with {many_jobs} stored")
    is_good = all(many[path] <= 2 * few[path] for path in PATHS[:-1])
    print("within twice" if is_good else "NOT within twice")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
