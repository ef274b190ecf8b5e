"""Messages leave after the commit, and only then; a transport that is away costs nobody anything."""

import queue

import pytest
from channels.layers import get_channel_layer
from django.db import transaction

from aistation.core.background import run_soon
from aistation.core.dispatch import (
    broadcast,
    broadcast_on_commit,
    changed_on_commit,
    send_once_on_commit,
    taken,
)


async def test_a_broadcast_from_synchronous_code_reaches_a_socket() -> None:
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add("workload.x", channel)
    broadcast("workload.x", {"type": "changed"})
    assert (await layer.receive(channel))["type"] == "changed"
    await layer.group_discard("workload.x", channel)


@pytest.mark.django_db(transaction=True)
def test_nothing_leaves_when_the_transaction_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []
    monkeypatch.setattr("aistation.core.dispatch.broadcast", lambda group, message: left.append(group))
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        broadcast_on_commit("a", {"type": "changed"})
        1 / 0  # noqa: B018 - the error is the point
    assert left == []
    with transaction.atomic():
        broadcast_on_commit("b", {"type": "changed"})
        assert left == []
    assert left == ["b"]


@pytest.mark.django_db(transaction=True)
def test_a_burst_sends_one_message_until_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr("aistation.core.dispatch.app.send_task", lambda name, **_: sent.put(name))
    for _ in range(5):
        send_once_on_commit("scheduling.decide")
    assert sent.get(timeout=5) == "scheduling.decide"
    send_once_on_commit("scheduling.sweep")  # goes the same way, after all that was wanted before it
    assert sent.get(timeout=5) == "scheduling.sweep"
    taken("scheduling.decide")
    send_once_on_commit("scheduling.decide")
    assert sent.get(timeout=5) == "scheduling.decide"


@pytest.mark.django_db(transaction=True)
def test_a_burst_of_changes_is_told_once() -> None:
    layer = get_channel_layer()
    channel = run_soon(layer.new_channel()).result(5)
    run_soon(layer.group_add("cluster", channel)).result(5)
    for _ in range(50):
        changed_on_commit("cluster", "queue")
    assert run_soon(layer.receive(channel)).result(5) == {"type": "changed", "topic": "cluster"}
    again = run_soon(layer.receive(channel))
    with pytest.raises(TimeoutError):
        again.result(0.3)
    changed_on_commit("cluster")
    assert again.result(5)["topic"] == "cluster"
