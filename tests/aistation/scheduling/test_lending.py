"""Lending, taking back, reservations and fair shares on a real database: what a plan says is what happens."""

from datetime import timedelta
from typing import Any

import pytest

from aistation.core.clock import now
from aistation.core.errors import ConflictError
from aistation.fleet.models import Duty, Liveness, Node, Pool
from aistation.fleet.services import change_lending, create_lending, create_reserve, set_duty
from aistation.quotas.models import QuotaScope
from aistation.quotas.services import accrue_usage
from aistation.scheduling.cycle import run_cycle
from aistation.scheduling.sweeps import empty_draining_nodes
from aistation.workloads.invariants import find_violations
from aistation.workloads.lifecycle import Kind, Phase, Reason, State
from aistation.workloads.models import Allocation, QueueOrder, Workload
from aistation.workloads.reports import TaskFacts, record_task_report, write_off_node
from aistation.workloads.selectors import queue, queue_positions
from aistation.workloads.services import record_checkpoint, request_preempt
from tests.factories.work import submitted, tasks_of
from tests.factories.world import T0, Site, a_pool, a_submission

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def training(site: Site) -> Pool:
    """A pool without nodes, whose queue may use the cards of `default` at any time."""
    pool = a_pool("training", slices=0, kinds=("job",))
    values = {"take_back": "checkpoint"}
    create_lending(name="always", lender=site.pool, borrower=pool, values=values, now=T0, actor=None)
    return pool


def report(job: Workload, phase: Phase, exit_code: int | None = None) -> None:
    for task in tasks_of(Workload.objects.get(pk=job.pk)):
        facts = TaskFacts(task.uid, task.nonce, phase, exit_code=exit_code, log_bytes=0, started_at=now())
        record_task_report(node_id=task.node_id, report=facts, now=now())


def an_environment(site: Site) -> Workload:
    from aistation.environments.services import create_environment  # noqa: PLC0415 - as in the other tests

    return create_environment(
        actor=site.actor, submission=a_submission(Kind.ENVIRONMENT, gpu_slices=1, cpu_milli=100), now=now()
    )


def state(job: Workload) -> str:
    return Workload.objects.get(pk=job.pk).state


class TestLending:
    def test_a_job_runs_on_lent_cards_and_its_allocation_says_so(self, site: Site, training: Pool) -> None:
        job = submitted(site, pool="training")
        run_cycle()
        held = Allocation.objects.get(task__attempt__workload=job)
        assert held.lent_by is not None
        assert (state(job), held.node.pool_id, held.lent_by.name) == (State.SCHEDULED, site.pool.pk, "always")

    def test_a_rule_that_is_off_lends_nothing(self, site: Site, training: Pool) -> None:
        change_lending(name="always", changes={"enabled": False}, now=T0, actor=site.actor)
        job = submitted(site, pool="training")
        run_cycle()
        assert state(job) == State.QUEUED

    def test_a_developer_gets_a_lent_card_back_and_the_job_keeps_its_place(self, site: Site, training: Pool) -> None:
        jobs = [submitted(site, pool="training") for _ in range(8)]
        run_cycle()
        for job in jobs:
            report(job, Phase.RUNNING)
        waits = submitted(site, pool="training")
        environment = an_environment(site)
        run_cycle()
        left = [job for job in jobs if state(job) == State.PREEMPTING]
        assert len(left) == 1
        run_cycle()  # while it saves, nobody else is asked
        assert sum(state(job) == State.PREEMPTING for job in jobs) == 1
        report(left[0], Phase.GONE)
        again = Workload.objects.get(pk=left[0].pk)
        assert (again.state, again.queued_at, again.stop_reason) == (State.QUEUED, left[0].queued_at, "")
        assert again.transitions.latest("pk").reason == Reason.RECLAIMED
        told = [again.message, *again.transitions.values_list("message", flat=True)]
        assert not any(environment.uid in text for text in told)  # it may be another group's
        run_cycle()
        assert (state(environment), state(again), state(waits)) == (State.STARTING, State.QUEUED, State.QUEUED)
        assert queue_positions([again])[again.pk] < queue_positions([waits])[waits.pk]
        assert find_violations() == []

    def test_a_job_that_may_not_be_preempted_is_let_in_only_when_it_ends_in_time(self, site: Site) -> None:
        pool = a_pool("training", slices=0, kinds=("job",))
        instant = now()
        minute = (instant.weekday() * 24 + instant.hour) * 60 + instant.minute
        windows = [[(minute - 60) % 10_080, (minute + 120) % 10_080]]
        create_lending(name="now", lender=site.pool, borrower=pool, values={"windows": windows}, now=T0, actor=None)
        fits, too_long, endless = (
            submitted(site, pool="training", time_limit_s=limit, preemptible=False) for limit in (3600, 4 * 3600, None)
        )
        run_cycle()
        assert [state(job) for job in (fits, too_long, endless)] == [State.SCHEDULED, State.QUEUED, State.QUEUED]

    def test_a_reserve_takes_cards_back_before_anybody_waits(self, site: Site, training: Pool) -> None:
        jobs = [submitted(site, pool="training") for _ in range(8)]
        run_cycle()
        for job in jobs:
            report(job, Phase.RUNNING)
        create_reserve(name="morning", pool=site.pool, values={"slices": 16}, now=T0, actor=None)
        run_cycle()
        assert sum(state(job) == State.PREEMPTING for job in jobs) == 2


class TestWaiting:
    def test_order_estimate_and_reservation_are_stored(self, site: Site) -> None:
        """B012: the first that is blocked is told when it starts, and which node is kept for it."""
        small = [submitted(site, time_limit_s=3600) for _ in range(8)]
        run_cycle()
        for job in small:
            report(job, Phase.RUNNING)
        big, behind = submitted(site, gpus=8, time_limit_s=3600), submitted(site, time_limit_s=3600)
        run_cycle()
        row = Workload.objects.get(pk=big.pk)
        assert row.earliest_start is not None
        assert abs(row.earliest_start - now() - timedelta(hours=1)) < timedelta(minutes=3)
        assert row.promised_start is not None
        order = QueueOrder.objects.get(pool=site.pool)
        assert order.uids == [big.uid, behind.uid]
        assert [(kept["id"], kept["nodes"]) for kept in order.reservations] == [(big.uid, ["n1"])]
        assert list(queue().values_list("uid", "position")) == [(big.uid, 1), (behind.uid, 2)]  # type: ignore[misc]  # an annotation

    def test_what_came_since_the_last_decision_stands_behind(self, site: Site) -> None:
        first = submitted(site, gpus=8)
        run_cycle()
        report(first, Phase.RUNNING)
        waits = submitted(site, gpus=8)
        run_cycle()
        late = submitted(site, gpus=8)
        assert list(queue().values_list("uid", "position")) == [(waits.uid, 1), (late.uid, 2)]  # type: ignore[misc]  # an annotation


class TestPreemption:
    def test_only_a_running_job_that_allows_it_is_asked_and_only_once(self, site: Site) -> None:
        soft, hard = submitted(site), submitted(site, preemptible=False)
        run_cycle()
        told: Any = {"reason": Reason.PREEMPTED, "message": "", "now": now()}
        assert request_preempt(workload_id=soft.pk, **told)
        assert not request_preempt(workload_id=soft.pk, **told)
        assert not request_preempt(workload_id=hard.pk, **told)
        assert (state(soft), state(hard)) == (State.PREEMPTING, State.SCHEDULED)

    def test_a_draining_node_is_emptied_of_what_may_be_preempted(self, site: Site) -> None:
        """B019."""
        soft, hard = submitted(site), submitted(site, preemptible=False)
        run_cycle()
        set_duty(node_id=Node.objects.get(name="n1").pk, duty=Duty.DRAINING, now=T0, actor=site.actor)
        empty_draining_nodes(now())
        assert (state(soft), state(hard)) == (State.PREEMPTING, State.SCHEDULED)
        report(soft, Phase.GONE)
        run_cycle()
        assert state(soft) == State.QUEUED

    def test_a_checkpoint_counts_for_the_attempt_that_saved_it(self, site: Site) -> None:
        job = submitted(site)
        run_cycle()
        record_checkpoint(workload_id=job.pk, now=T0, actor=site.actor)
        assert Workload.objects.get(pk=job.pk).attempts.get().saved_at == T0


def test_use_is_counted_and_fades(site: Site) -> None:
    submitted(site)
    run_cycle()
    start = now()
    accrue_usage(start)
    accrue_usage(start + timedelta(seconds=100))
    scope = QuotaScope.objects.get(user=None, pool=site.pool)
    assert 99_000 <= scope.usage <= 100_000  # one card for 100 s, in milli-seconds
    Workload.objects.filter(state=State.SCHEDULED).update(preemptible=True)
    QuotaScope.objects.filter(pk=scope.pk).update(gpu_milli_used=0, cpu_milli_used=0, memory_mib_used=0)
    accrue_usage(start + timedelta(days=2, seconds=100))
    assert abs(QuotaScope.objects.get(pk=scope.pk).usage - scope.usage // 2) <= 1


def test_a_dead_machine_is_written_off_on_a_persons_word_alone(site: Site) -> None:
    """B029: a job with retries waits again once it is certain that nothing of it runs; a node that answers stays."""
    again, ends = submitted(site, max_retries=1), submitted(site)
    run_cycle()
    for job in (again, ends):
        report(job, Phase.RUNNING)
    node = Node.objects.get(name="n1")
    with pytest.raises(ConflictError):
        write_off_node(node_id=node.pk, node_name="n1", now=now(), actor=site.actor)
    Node.objects.update(liveness=Liveness.LOST)
    assert write_off_node(node_id=node.pk, node_name="n1", now=now(), actor=site.actor) == 2
    assert (state(again), state(ends)) == (State.QUEUED, State.FAILED)
    assert Workload.objects.get(pk=ends.pk).reason == Reason.NODE_LOST
    assert Node.objects.get(name="n1").cpu_taken_milli == 0
    assert find_violations() == []
