"""The invariants of the design as questions to the database. All answers must be empty, at any moment.

Each is one statement, so that it sees one instant; none takes a lock.
"""

from dataclasses import dataclass
from typing import Final

from django.db import connection


@dataclass(frozen=True, slots=True)
class Violation:
    """``rule`` is the invariant's number in the design, ``what`` the row, ``detail`` the numbers that disagree."""

    rule: str
    what: str
    detail: str


def find_violations() -> list[Violation]:
    """Every breach that the database shows now."""
    found = []
    with connection.cursor() as cursor:
        for rule, statement in _QUESTIONS:
            cursor.execute(statement)
            found += [Violation(rule, str(what), str(detail)) for what, detail in cursor.fetchall()]
    return found


_LIVE_WORK: Final = """
    SELECT held.*, task.attempt_id, attempt.workload_id, work.group_id, work.user_id, work.pool_id, work.kind
    FROM workloads_allocation held
    JOIN workloads_task task ON task.id = held.task_id
    JOIN workloads_attempt attempt ON attempt.id = task.attempt_id
    JOIN workloads_workload work ON work.id = attempt.workload_id
    WHERE held.released_at IS NULL
"""

_QUESTIONS: Final = (
    (
        "I1",
        """
        SELECT device.uuid, format('%s MiB of %s and %s milli in live shares', sum(share.memory_mib),
                                   device.memory_mib, sum(share.compute_milli))
        FROM fleet_device device
        JOIN workloads_deviceshare share ON share.device_id = device.id
        JOIN workloads_allocation held ON held.id = share.allocation_id AND held.released_at IS NULL
        GROUP BY device.id
        HAVING sum(share.memory_mib) > device.memory_mib OR sum(share.compute_milli) > 1000
            OR (bool_or(share.whole) AND count(*) > 1)
        """,
    ),
    (
        "I1",
        """
        SELECT node.name, format('%s of %s millicores, %s of %s MiB taken', node.cpu_taken_milli, node.cpu_milli,
                                 node.memory_taken_mib, node.memory_mib)
        FROM fleet_node node
        WHERE node.cpu_taken_milli > greatest(node.cpu_milli, node.cpu_over_milli)
           OR node.memory_taken_mib > greatest(node.memory_mib, node.memory_over_mib)
        """,
    ),
    (
        "I5",
        """
        SELECT device.uuid, format('stored %s MiB and %s milli, counted %s and %s', device.memory_taken_mib,
                                   device.taken_milli, coalesce(sum(share.memory_mib), 0),
                                   coalesce(sum(share.compute_milli), 0))
        FROM fleet_device device
        LEFT JOIN (workloads_deviceshare share JOIN workloads_allocation held
                   ON held.id = share.allocation_id AND held.released_at IS NULL) ON share.device_id = device.id
        GROUP BY device.id
        HAVING device.memory_taken_mib <> coalesce(sum(share.memory_mib), 0)
            OR device.taken_milli <> coalesce(sum(share.compute_milli), 0)
        """,
    ),
    (
        "I5",
        """
        SELECT node.name, format('stored %s millicores and %s MiB, counted %s and %s', node.cpu_taken_milli,
                                 node.memory_taken_mib, coalesce(sum(held.cpu_milli), 0),
                                 coalesce(sum(held.memory_mib), 0))
        FROM fleet_node node
        LEFT JOIN workloads_allocation held ON held.node_id = node.id AND held.released_at IS NULL
        GROUP BY node.id
        HAVING node.cpu_taken_milli <> coalesce(sum(held.cpu_milli), 0)
            OR node.memory_taken_mib <> coalesce(sum(held.memory_mib), 0)
        """,
    ),
    (
        "I5",
        f"""
        SELECT format('group %s, user %s, pool %s', scope.group_id, scope.user_id, scope.pool_id),
               format('stored %s card milli, %s millicores, %s MiB, %s environments, %s jobs;'
                      ' counted %s, %s, %s, %s, %s',
                      scope.gpu_milli_used, scope.cpu_milli_used, scope.memory_mib_used, scope.environments_used,
                      scope.running_jobs_used, counted.card_milli, counted.cpu_milli, counted.memory_mib,
                      counted.environments, counted.jobs)
        FROM quotas_quotascope scope
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(live.card_milli), 0) AS card_milli, coalesce(sum(live.cpu_milli), 0) AS cpu_milli,
                   coalesce(sum(live.memory_mib), 0) AS memory_mib,
                   count(DISTINCT live.attempt_id) FILTER (WHERE live.kind = 'environment') AS environments,
                   count(DISTINCT live.attempt_id) FILTER (WHERE live.kind = 'job') AS jobs
            FROM ({_LIVE_WORK}) live
            WHERE live.group_id = scope.group_id AND (scope.user_id IS NULL OR live.user_id = scope.user_id)
              AND (scope.pool_id IS NULL OR live.pool_id = scope.pool_id)
        ) counted
        WHERE (scope.gpu_milli_used, scope.cpu_milli_used, scope.memory_mib_used, scope.environments_used,
               scope.running_jobs_used)
           <> (counted.card_milli, counted.cpu_milli, counted.memory_mib, counted.environments, counted.jobs)
        """,  # noqa: S608 - a constant of this module
    ),
    (
        "I3",
        """
        SELECT work.uid, format('%s, its last transition says %s', work.state, last.to_state)
        FROM workloads_workload work
        LEFT JOIN LATERAL (SELECT to_state FROM workloads_transition WHERE workload_id = work.id
                           ORDER BY id DESC LIMIT 1) last ON true
        WHERE last.to_state IS DISTINCT FROM work.state
        """,
    ),
    (
        "I3",
        """
        SELECT work.uid, format('%s while resources are held by attempt %s', work.state, attempt.number)
        FROM workloads_workload work
        JOIN workloads_attempt attempt ON attempt.workload_id = work.id
        JOIN workloads_task task ON task.attempt_id = attempt.id
        JOIN workloads_allocation held ON held.task_id = task.id AND held.released_at IS NULL
        JOIN fleet_node node ON node.id = held.node_id
        WHERE work.state IN ('queued', 'held', 'succeeded', 'stopped', 'cancelled', 'timed_out', 'failed')
          AND work.reason <> 'node_lost'
        """,
    ),
    (
        "I4",
        """
        SELECT work.uid, 'more than one attempt holds resources'
        FROM workloads_workload work
        JOIN workloads_attempt attempt ON attempt.workload_id = work.id
        JOIN workloads_task task ON task.attempt_id = attempt.id
        JOIN workloads_allocation held ON held.task_id = task.id AND held.released_at IS NULL
        GROUP BY work.id HAVING count(DISTINCT attempt.id) > 1
        """,
    ),
    (
        "I6",
        """
        SELECT work.uid, format('attempt %s has epoch %s, the one before it %s', later.number, later.epoch,
                                earlier.epoch)
        FROM workloads_attempt later
        JOIN workloads_attempt earlier ON earlier.workload_id = later.workload_id AND earlier.number = later.number - 1
        JOIN workloads_workload work ON work.id = later.workload_id
        WHERE later.epoch < earlier.epoch
        """,
    ),
)
"""I2 (quota limits) is a CHECK constraint of `quotas_quotascope`; I5 holds its inputs against the live allocations."""
