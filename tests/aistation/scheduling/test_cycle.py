"""The whole cycle on a real database: what is placed, what waits and why, and who may write."""

from datetime import timedelta

import pytest
from django.db.models import Max

from aistation.fleet.models import Device, Liveness, Node
from aistation.quotas.models import QuotaScope
from aistation.quotas.services import QuotaChange, set_quotas
from aistation.scheduling import lease
from aistation.scheduling.apply import apply_plan
from aistation.scheduling.cycle import run_cycle
from aistation.scheduling.dryrun import dry_run
from aistation.scheduling.lease import StaleEpochError
from aistation.scheduling.snapshot import take_snapshot
from aistation.workloads.lifecycle import Phase, Reason, State
from aistation.workloads.models import DeviceShare, Workload
from aistation.workloads.reports import TaskFacts, record_task_report
from aistation.workloads.services import request_stop
from scheduler.decide import decide
from tests.factories.work import submitted, tasks_of
from tests.factories.world import T0, Site, a_submission


def states(*jobs: Workload) -> list[str]:
    found = dict(Workload.objects.values_list("pk", "state"))
    return [found[job.pk] for job in jobs]


def reasons(job: Workload) -> list[str]:
    return [reason["code"] for reason in Workload.objects.get(pk=job.pk).pending_reasons]


def finish(job: Workload) -> None:
    for task in tasks_of(Workload.objects.get(pk=job.pk)):
        facts = TaskFacts(task_uid=task.uid, nonce=task.nonce, phase=Phase.EXITED, exit_code=0, log_bytes=0)
        record_task_report(node_id=task.node_id, report=facts, now=T0)


def limit(site: Site, **limits: int | None) -> None:
    change = QuotaChange(pool=None, limits=limits, guaranteed={}, counts={})
    set_quotas(group=site.group, user=None, changes=[change], now=T0, actor=site.actor)


@pytest.mark.django_db(transaction=True)
class TestCycle:
    def test_whole_cards_are_filled_and_the_rest_waits_with_its_reason(self, site: Site) -> None:
        jobs = [submitted(site) for _ in range(10)]
        cycle = run_cycle()
        assert (cycle.placed, cycle.waiting) == (8, 2)
        assert states(*jobs) == [State.SCHEDULED] * 8 + [State.QUEUED] * 2
        assert reasons(jobs[9]) == ["pool_full"]
        finish(jobs[0])
        run_cycle()
        assert states(jobs[8], jobs[9]) == [State.SCHEDULED, State.QUEUED]

    def test_one_slice_jobs_go_exactly_eight_to_a_card_within_what_it_reports(self, site: Site) -> None:
        for _ in range(70):
            submitted(site, gpu_memory_mib=4096, cpu_milli=100)
        assert run_cycle().placed == 64
        for device in Device.objects.all():
            shares = DeviceShare.objects.filter(device=device, allocation__released_at=None)
            assert shares.count() == 8
            assert sum(share.memory_mib for share in shares) == device.memory_taken_mib <= 32_510

    def test_a_group_at_its_limit_waits_for_its_quota_though_cards_are_free(self, site: Site) -> None:
        """B001: never above the limit; after the first ends exactly one more starts."""
        limit(site, gpu_milli=4000)
        jobs = [submitted(site) for _ in range(40)]
        assert run_cycle().placed == 4
        assert reasons(jobs[4]) == ["quota_group"]
        finish(jobs[0])
        assert run_cycle().placed == 1
        assert QuotaScope.objects.get(user=None, pool=None).gpu_milli_used == 4000

    def test_a_limit_below_the_use_stops_new_starts_and_leaves_running_work_alone(self, site: Site) -> None:
        """B006."""
        jobs = [submitted(site) for _ in range(6)]
        run_cycle()
        waiting = [submitted(site) for _ in range(3)]
        for number in (4000, 2000):
            limit(site, gpu_milli=number)
            assert run_cycle().placed == 0
        assert states(*jobs) == [State.SCHEDULED] * 6
        for job in jobs[:2]:
            finish(job)
        assert run_cycle().placed == 0
        limit(site, gpu_milli=5000)
        assert run_cycle().placed == 1
        assert states(*waiting) == [State.SCHEDULED, State.QUEUED, State.QUEUED]

    def test_a_finished_job_is_never_queued_or_counted_again(self, site: Site) -> None:
        """B005."""
        job = submitted(site)
        run_cycle()
        finish(job)
        assert run_cycle().placed == 0
        assert states(job) == [State.SUCCEEDED]
        assert QuotaScope.objects.aggregate(top=Max("gpu_milli_used"))["top"] == 0

    def test_nothing_is_placed_on_a_silent_node_and_the_reason_says_so(self, site: Site) -> None:
        Node.objects.update(liveness=Liveness.SUSPECT)
        job = submitted(site)
        assert run_cycle().placed == 0
        assert reasons(job) == ["node_unavailable"]

    def test_a_cancelled_job_in_a_plan_is_left_out_when_the_plan_is_written(self, site: Site) -> None:
        """B018: the plan was made before the cancel."""
        jobs = [submitted(site), submitted(site)]
        plan = decide(take_snapshot(epoch=_take_over(), now=T0))
        request_stop(workload_id=jobs[0].pk, reason=Reason.USER_STOPPED, now=T0, actor=site.actor)
        applied = apply_plan(plan, now=T0)
        assert (applied.placed, applied.stale) == (1, 1)
        assert states(*jobs) == [State.CANCELLED, State.SCHEDULED]

    def test_two_plans_from_one_snapshot_place_each_job_once(self, site: Site) -> None:
        for _ in range(5):
            submitted(site)
        plan = decide(take_snapshot(epoch=_take_over(), now=T0))
        assert apply_plan(plan, now=T0).placed == 5
        assert apply_plan(plan, now=T0).placed == 0

    def test_a_card_that_was_taken_meanwhile_refuses_and_the_others_are_placed(self, site: Site) -> None:
        """The CHECK constraint is the last word."""
        jobs = [submitted(site) for _ in range(3)]
        plan = decide(take_snapshot(epoch=_take_over(), now=T0))
        taken = plan.placements[1].tasks[0].shares[0].device_id
        Device.objects.filter(uuid=taken).update(taken_milli=500)
        assert apply_plan(plan, now=T0).stale == 1
        assert sorted(states(*jobs)) == [State.QUEUED, State.SCHEDULED, State.SCHEDULED]
        assert QuotaScope.objects.get(user=None, pool=None).gpu_milli_used == 2000

    def test_a_plan_of_an_older_epoch_writes_nothing(self, site: Site) -> None:
        """I6, B032."""
        job = submitted(site)
        plan = decide(take_snapshot(epoch=_take_over(), now=T0))
        _take_over()
        with pytest.raises(StaleEpochError):
            apply_plan(plan, now=T0)
        assert states(job) == [State.QUEUED]

    def test_while_one_decides_another_notes_its_wish_and_the_first_goes_round_again(self, site: Site) -> None:
        with lease.hold("first") as first:
            assert first is not None
            assert not run_cycle().decided
            assert lease.wishes() == first.requested + 1
        assert run_cycle().decided

    def test_a_dry_run_tells_what_would_happen_and_writes_nothing(self, site: Site) -> None:
        assert dry_run(actor=site.actor, submission=a_submission(gpus=8), now=T0).starts_now
        submitted(site)
        run_cycle()
        answer = dry_run(actor=site.actor, submission=a_submission(gpus=8), now=T0 + timedelta(days=9999))
        assert not answer.starts_now
        assert answer.position == 1
        assert [reason.code for reason in answer.reasons] == ["pool_full"]
        assert Workload.objects.count() == 1

    def test_higher_priority_starts_first_among_the_queued(self, site: Site) -> None:
        low = [submitted(site, priority=10) for _ in range(8)]
        high = [submitted(site, priority=90) for _ in range(4)]
        run_cycle()
        assert states(*high) == [State.SCHEDULED] * 4
        assert states(*low) == [State.SCHEDULED] * 4 + [State.QUEUED] * 4

    def test_a_gang_starts_whole_or_not_at_all(self, site: Site) -> None:
        first = submitted(site, tasks=2, gpus=3)
        second = submitted(site, tasks=2, gpus=3)
        run_cycle()
        assert states(first, second) == [State.SCHEDULED, State.QUEUED]
        assert len(tasks_of(Workload.objects.get(pk=first.pk))) == 2


def _take_over() -> int:
    with lease.hold("test") as held:
        assert held is not None
        return held.epoch
