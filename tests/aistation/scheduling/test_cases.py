"""Cases from the field that need several takers at once, or a scheduler that dies in the middle."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Event
from typing import TypeVar

import pytest
from django.db import connection, connections

from aistation.environments.services import create_environment
from aistation.fleet.models import Device
from aistation.jobs.services import submit_job
from aistation.quotas.models import QuotaScope
from aistation.quotas.services import QuotaChange, set_quotas
from aistation.scheduling import lease
from aistation.scheduling.cycle import run_cycle
from aistation.workloads.invariants import find_violations
from aistation.workloads.lifecycle import Kind, Phase, Reason, State
from aistation.workloads.models import Workload
from aistation.workloads.reports import TaskFacts, record_task_report
from aistation.workloads.services import request_stop
from tests.factories.work import submitted, tasks_of
from tests.factories.world import T0, Site, a_submission

T = TypeVar("T")
pytestmark = pytest.mark.django_db(transaction=True)


def in_thread(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connections.close_all()


def end(job: Workload, phase: Phase = Phase.EXITED) -> None:
    for task in tasks_of(Workload.objects.get(pk=job.pk)):
        facts = TaskFacts(task_uid=task.uid, nonce=task.nonce, phase=phase, exit_code=0, log_bytes=0)
        record_task_report(node_id=task.node_id, report=facts, now=T0)


def test_b001_forty_parallel_submits_never_pass_the_groups_limit(site: Site) -> None:
    change = QuotaChange(pool=None, limits={"gpu_milli": 4000}, guaranteed={}, counts={})
    set_quotas(group=site.group, user=None, changes=[change], now=T0, actor=site.actor)
    actor, done = site.actor, Event()
    samples: list[int] = []

    def submit(number: int) -> None:
        kind = Kind.ENVIRONMENT if number % 3 == 0 else Kind.JOB
        verb = create_environment if kind is Kind.ENVIRONMENT else submit_job
        in_thread(lambda: verb(actor=actor, submission=a_submission(kind), now=T0))

    def keep_deciding() -> None:
        while not done.is_set():
            run_cycle()

    def sample() -> None:
        while not done.is_set():
            rows = QuotaScope.objects.filter(user=None, pool=None).values_list("gpu_milli_used", flat=True)
            samples.extend(rows)

    with ThreadPoolExecutor(11) as pool:
        deciders = [pool.submit(in_thread, keep_deciding) for _ in range(2)]
        sampler = pool.submit(in_thread, sample)
        for future in [pool.submit(submit, number) for number in range(40)]:
            future.result()
        done.set()
        for future in (*deciders, sampler):
            future.result()
    run_cycle()
    assert samples
    assert max(samples) <= 4000
    waiting = Workload.objects.filter(state=State.QUEUED)
    assert waiting.count() == 36
    assert {reason["code"] for work in waiting for reason in work.pending_reasons} == {"quota_group"}
    end(Workload.objects.exclude(state=State.QUEUED)[0])
    run_cycle()
    assert Workload.objects.filter(state=State.QUEUED).count() == 35
    assert find_violations() == []


def _hold_and_wait(pipe: Connection) -> None:
    connections.close_all()
    with lease.hold("child"):
        pipe.send("held")
        signal.pause()


def test_b004_a_scheduler_killed_in_the_middle_is_replaced_within_two_seconds(site: Site) -> None:
    """And nothing that it knew is missed: a job of all cards starts right after another one was cancelled."""
    whole = submitted(site, gpus=8)
    run_cycle()
    mine, theirs = get_context("fork").Pipe()
    connections.close_all()
    child = get_context("fork").Process(target=_hold_and_wait, args=(theirs,))
    child.start()
    assert child.pid is not None
    assert mine.recv() == "held"
    request_stop(workload_id=whole.pk, reason=Reason.USER_STOPPED, now=T0, actor=site.actor)
    end(whole, Phase.GONE)
    following = submitted(site, gpus=8)
    assert not run_cycle().decided
    os.kill(child.pid, signal.SIGKILL)
    killed_at = time.monotonic()
    child.join()
    while not run_cycle().decided:
        assert time.monotonic() - killed_at < 10
    assert time.monotonic() - killed_at < 2
    assert Workload.objects.get(pk=following.pk).state == State.SCHEDULED


def test_b016_one_bad_row_stops_no_other(site: Site) -> None:
    """A job whose stored numbers cannot be booked is left behind, the others start."""
    bad = submitted(site, gpus=0)
    good = [submitted(site, gpus=0) for _ in range(20)]
    with connection.cursor() as cursor:  # behind the product's back: a card charge that overflows its column
        cursor.execute("ALTER TABLE workloads_allocation ADD CONSTRAINT sabotage CHECK (cpu_milli <> 999) NOT VALID")
    Workload.objects.filter(pk=bad.pk).update(cpu_milli=999)
    try:
        assert run_cycle().placed == 20
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE workloads_allocation DROP CONSTRAINT sabotage")
    assert Workload.objects.get(pk=bad.pk).state == State.QUEUED
    assert Workload.objects.filter(pk__in=[job.pk for job in good], state=State.SCHEDULED).count() == 20
    assert find_violations() == []


def test_b033_five_deliveries_of_one_message_make_one_attempt(site: Site) -> None:
    job = submitted(site)
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(in_thread, [run_cycle] * 5))
    run_cycle()
    assert Workload.objects.get(pk=job.pk).attempt == 1
    assert len(tasks_of(Workload.objects.get(pk=job.pk))) == 1


def test_b009_whole_cards_and_slices_never_share_a_card(site: Site) -> None:
    for _ in range(4):
        submitted(site, gpus=1)
        submitted(site, gpus=1, gpu_slices=1)
    submitted(site, gpus=8)
    run_cycle()
    for device in Device.objects.all():
        shares = list(device.shares.filter(allocation__released_at=None))
        assert not any(share.whole for share in shares) or len(shares) == 1
    assert find_violations() == []


def test_s30_forty_takers_of_one_last_queue_place(site: Site) -> None:
    change = QuotaChange(pool=None, limits={}, guaranteed={}, counts={"max_queued_jobs": 1})
    set_quotas(group=site.group, user=None, changes=[change], now=T0, actor=site.actor)
    actor = site.actor

    def submit(_: int) -> bool:
        try:
            in_thread(lambda: submit_job(actor=actor, submission=a_submission(), now=T0))
        except Exception as error:
            assert type(error).__name__ == "QuotaExceededError"
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(submit, range(40))) == 1
