"""What agents report: repeated, late, out of order, of older attempts."""

from dataclasses import replace

import pytest

from aistation.fleet.models import Device
from aistation.quotas.models import QuotaScope
from aistation.workloads.invariants import find_violations
from aistation.workloads.lifecycle import Phase, Reason, State
from aistation.workloads.models import Task, Workload
from aistation.workloads.reports import ReportOutcome, TaskFacts, record_task_report
from aistation.workloads.services import mark_node_lost, request_stop
from tests.factories.work import placed, submitted, tasks_of
from tests.factories.world import T0, Site


def report(task: Task, phase: Phase, **facts: object) -> ReportOutcome:
    known = TaskFacts(task_uid=task.uid, nonce=task.nonce, phase=phase, **facts)  # type: ignore[arg-type]
    return record_task_report(node_id=task.node_id, report=known, now=T0)


def state(workload: Workload) -> tuple[str, str]:
    fresh = Workload.objects.get(pk=workload.pk)
    return fresh.state, fresh.reason


def assert_books_agree() -> None:
    assert find_violations() == []


def test_a_job_goes_from_placed_to_succeeded_and_gives_everything_back(site: Site) -> None:
    job = placed(site)
    (task,) = tasks_of(job)
    assert state(job) == (State.SCHEDULED, "")
    assert_books_agree()
    for phase, expected in [
        (Phase.PULLING, State.PULLING),
        (Phase.STARTING, State.STARTING),
        (Phase.RUNNING, State.RUNNING),
    ]:
        assert report(task, phase) == ReportOutcome(known=True)
        assert state(job) == (expected, "")
    assert report(task, Phase.EXITED, exit_code=0, log_bytes=0) == ReportOutcome(known=True, settled=True)
    assert state(job) == (State.SUCCEEDED, Reason.COMPLETED)
    assert QuotaScope.objects.filter(gpu_milli_used=0, running_jobs_used=0).count() == 4
    assert_books_agree()


def test_a_repeated_end_gives_back_once(site: Site) -> None:
    """B002."""
    jobs = [placed(site, number) for number in range(8)]
    ends = [(tasks_of(job)[0], job) for job in jobs]
    for _ in range(3):
        for task, _job in reversed(ends):
            report(task, Phase.EXITED, exit_code=3)
            assert_books_agree()
    for _task, job in ends:
        assert state(job) == (State.FAILED, Reason.EXIT_NONZERO)


def test_a_late_report_of_running_after_the_end_changes_nothing(site: Site) -> None:
    job = placed(site)
    (task,) = tasks_of(job)
    report(task, Phase.EXITED, exit_code=0)
    report(task, Phase.RUNNING)
    assert state(job) == (State.SUCCEEDED, Reason.COMPLETED)
    assert_books_agree()


def test_a_wrong_nonce_or_node_is_not_known(site: Site) -> None:
    """B072: a container that only looks like ours."""
    job = placed(site)
    (task,) = tasks_of(job)
    forged = TaskFacts(task_uid=task.uid, nonce="guess", phase="exited", exit_code=0)
    assert not record_task_report(node_id=task.node_id, report=forged, now=T0).known
    right = replace(forged, nonce=task.nonce)
    assert not record_task_report(node_id=task.node_id + 1, report=right, now=T0).known
    assert state(job) == (State.SCHEDULED, "")


def test_the_task_is_settled_only_when_its_whole_log_is_here(site: Site) -> None:
    (task,) = tasks_of(placed(site))
    assert not report(task, Phase.EXITED, exit_code=0, log_bytes=5).settled


@pytest.mark.parametrize("moment", [None, Phase.PULLING, Phase.STARTING, Phase.RUNNING])
def test_a_cancel_at_any_moment_ends_cancelled_and_frees_the_node_after_its_word(
    site: Site, moment: Phase | None
) -> None:
    """B018, B024: booked until the node confirms."""
    job = placed(site)
    (task,) = tasks_of(job)
    if moment:
        report(task, moment)
    request_stop(workload_id=job.pk, reason=Reason.USER_STOPPED, now=T0, actor=site.actor)
    request_stop(workload_id=job.pk, reason=Reason.USER_STOPPED, now=T0, actor=site.actor)
    assert state(job)[0] == State.STOPPING
    assert Device.objects.get(uuid="GPU-n1-0").taken_milli == 1000
    report(task, Phase.RUNNING)  # crossed on the wire
    assert state(job)[0] == State.STOPPING
    report(task, Phase.GONE)
    assert state(job) == (State.CANCELLED, Reason.USER_STOPPED)
    assert Device.objects.get(uuid="GPU-n1-0").taken_milli == 0
    assert_books_agree()


def test_a_cancel_while_queued_ends_at_once(site: Site) -> None:
    job = submitted(site)
    request_stop(workload_id=job.pk, reason=Reason.USER_STOPPED, now=T0, actor=site.actor)
    assert state(job) == (State.CANCELLED, Reason.USER_STOPPED)


def test_a_failed_start_is_a_precise_end_and_gives_back(site: Site) -> None:
    """B003."""
    job = placed(site)
    (task,) = tasks_of(job)
    report(task, Phase.FAILED, error="image_pull", message="no such image")
    assert state(job) == (State.FAILED, Reason.IMAGE_PULL)
    assert Workload.objects.get(pk=job.pk).message == "no such image"
    assert_books_agree()


def test_a_retry_goes_back_to_the_queue_and_an_old_attempt_says_nothing_any_more(site: Site) -> None:
    """B042."""
    job = placed(site, max_retries=1)
    (first,) = tasks_of(job)
    report(first, Phase.EXITED, exit_code=1)
    assert state(job) == (State.QUEUED, "")
    assert_books_agree()
    report(first, Phase.EXITED, exit_code=0)
    assert state(job) == (State.QUEUED, "")
    assert Workload.objects.get(pk=job.pk).attempt == 1


def test_one_failed_task_of_a_gang_stops_the_others_and_the_job_fails_for_its_reason(site: Site) -> None:
    """B022."""
    job = placed(site, 0, 1, 2)
    tasks = tasks_of(job)
    for task in tasks:
        report(task, Phase.RUNNING)
    assert state(job)[0] == State.RUNNING
    report(tasks[1], Phase.EXITED, exit_code=9)
    assert state(job)[0] == State.STOPPING
    assert_books_agree()
    report(tasks[0], Phase.GONE)
    report(tasks[2], Phase.EXITED, exit_code=143)
    assert state(job) == (State.FAILED, Reason.EXIT_NONZERO)
    assert Workload.objects.get(pk=job.pk).exit_code == 9
    assert_books_agree()


def test_a_job_whose_container_vanished_fails_and_says_so(site: Site) -> None:
    """B021."""
    job = placed(site)
    (task,) = tasks_of(job)
    report(task, Phase.RUNNING)
    report(task, Phase.GONE, error="container_lost", message="The container was removed by hand.")
    assert state(job) == (State.FAILED, Reason.AGENT_ERROR)


def test_work_of_a_lost_node_ends_but_its_cards_stay_booked_until_the_node_speaks(site: Site) -> None:
    """B024."""
    job = placed(site)
    (task,) = tasks_of(job)
    report(task, Phase.RUNNING)
    mark_node_lost(workload_id=job.pk, node_name="n1", now=T0)
    assert state(job) == (State.FAILED, Reason.NODE_LOST)
    assert Device.objects.get(uuid="GPU-n1-0").taken_milli == 1000
    report(task, Phase.GONE)
    assert state(job) == (State.FAILED, Reason.NODE_LOST)
    assert Device.objects.get(uuid="GPU-n1-0").taken_milli == 0
    assert_books_agree()


def test_a_retryable_job_of_a_lost_node_waits_for_proof_before_the_next_attempt(site: Site) -> None:
    """I4: no two attempts alive at once."""
    job = placed(site, max_retries=1)
    (task,) = tasks_of(job)
    report(task, Phase.RUNNING)
    mark_node_lost(workload_id=job.pk, node_name="n1", now=T0)
    assert state(job)[0] == State.STOPPING
    report(task, Phase.GONE)
    assert state(job)[0] == State.QUEUED
