"""What is usually asked of a pool is learned from what is submitted and what ends."""

import pytest

from aistation.core.clock import now
from aistation.scheduling.mixes import learn, learned_mixes
from aistation.scheduling.models import TaskMix
from aistation.scheduling.snapshot import take_snapshot
from aistation.workloads.lifecycle import Reason
from aistation.workloads.services import request_stop
from scheduler.mix import ONE
from tests.factories.work import submitted
from tests.factories.world import Site

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_mix_is_used_once_enough_has_been_seen_and_counts_each_submit_once(site: Site) -> None:
    jobs = [submitted(site, gpus=2) for _ in range(3)]
    learn(now())
    assert learned_mixes() == ()
    request_stop(workload_id=jobs[0].pk, reason=Reason.USER_STOPPED, now=now())
    TaskMix.objects.update(due=4)
    submitted(site, gpu_slices=1, tasks=2)
    learn(now())
    learn(now())
    (mix,) = learned_mixes()
    assert mix.pool_id == site.pool.name
    assert {(one.resources.gpus, one.weight) for one in mix.demands} == {(2, 3 * ONE), (1, 2 * ONE)}
    assert mix.ended == ONE
    assert learned_mixes()[0] is mix
    assert take_snapshot(epoch=1, now=now()).mixes == (mix,)
