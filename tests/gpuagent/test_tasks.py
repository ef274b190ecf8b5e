"""The book of tasks: orders in, reports out."""

from pathlib import Path

import pytest

from agentapi.v1 import ContainerPhase as P
from agentapi.v1 import Desired, TaskSpec
from gpuagent.store import Store
from gpuagent.tasks import LOG_HOLD_S, Task, TaskBook
from tests.gpuagent.specs import a_spec


@pytest.fixture
def book(tmp_path: Path) -> TaskBook:
    return TaskBook(Store(tmp_path), "boot-1", lambda: None)


def _order(book: TaskBook, *specs: TaskSpec, version: int = 1) -> Task:
    book.apply(Desired(version=version, tasks=specs))
    task = book.get(specs[0].task_id)
    assert task is not None
    return task


def _due(book: TaskBook, now: float) -> list[P]:
    due, _ = book.due_reports(now)
    book.acknowledge(due, now)
    return [report.phase for _, _, report in due]


def test_a_phase_never_goes_back(book: TaskBook) -> None:
    task = _order(book, a_spec("x"))
    assert book.update(task, P.RUNNING)
    assert book.update(task, P.EXITED, exit_code=0)
    assert not book.update(task, P.RUNNING)
    assert not book.update(task, P.GONE)
    assert (task.phase, task.report.exit_code) == (P.EXITED, 0)


def test_news_are_told_once_and_an_end_again_and_again(book: TaskBook) -> None:
    task = _order(book, a_spec("x"))
    assert _due(book, 0.0) == []  # nothing is known yet
    book.update(task, P.RUNNING)
    assert _due(book, 1.0) == [P.RUNNING]
    assert _due(book, 2.0) == []
    book.update(task, P.EXITED, exit_code=0, log_bytes=0)
    book.note_log_stored(task)
    assert _due(book, 3.0) == [P.EXITED]
    assert _due(book, 4.0) == []
    assert _due(book, 9.0) == [P.EXITED]
    book.settle([task.spec.task_id])
    assert _due(book, 20.0) == []


def test_news_that_come_while_a_report_is_on_its_way_are_told_too(book: TaskBook) -> None:
    task = _order(book, a_spec("x"))
    book.update(task, P.STARTING)
    due, _ = book.due_reports(0.0)
    book.update(task, P.RUNNING)
    book.acknowledge(due, 0.0)
    assert _due(book, 0.0) == [P.RUNNING]


def test_an_end_waits_for_the_last_bytes_of_its_log_but_not_for_long(book: TaskBook) -> None:
    task = _order(book, a_spec("x"))
    book.update(task, P.EXITED, exit_code=0, log_bytes=10)
    assert _due(book, task.ended_at) == []
    assert _due(book, task.ended_at + LOG_HOLD_S) == [P.EXITED]


def test_only_an_ended_task_can_be_settled(book: TaskBook) -> None:
    task = _order(book, a_spec("x"))
    book.update(task, P.RUNNING)
    book.settle([task.spec.task_id, "unknown"])
    assert not task.is_settled


def test_a_settled_task_is_never_started_again(book: TaskBook) -> None:
    """I4: an old desired state may arrive late."""
    spec = a_spec("x")
    task = _order(book, spec)
    book.update(task, P.EXITED, exit_code=0, log_bytes=0)
    book.settle([spec.task_id])
    book.note_log_stored(task)
    assert book.clearable(0.0) == [task]
    book.drop(spec.task_id)
    book.apply(Desired(version=1, tasks=(spec,)))
    assert book.get(spec.task_id) is None
    assert book.wanted() == {}


def test_an_order_with_another_nonce_does_not_replace_a_task(book: TaskBook) -> None:
    spec = a_spec("x")
    task = _order(book, spec)
    book.apply(Desired(version=2, tasks=(spec.model_copy(update={"nonce": "other"}),)))
    assert task.spec.nonce == spec.nonce
    assert task.is_desired


def test_an_id_that_is_no_file_name_is_passed_over(book: TaskBook) -> None:
    """B064."""
    book.apply(Desired(version=1, tasks=(a_spec("x", task_id="../../etc"),)))
    assert book.wanted() == {}


def test_a_task_is_reserved_for_one_operation_at_a_time(book: TaskBook) -> None:
    task = _order(book, a_spec("x"))
    assert book.claim(task.spec.task_id) is task
    assert book.claim(task.spec.task_id) is None
    book.release(task)
    assert book.claim(task.spec.task_id) is task


def test_a_new_agent_goes_on_from_the_old_ones_book(tmp_path: Path) -> None:
    store = Store(tmp_path)
    book = TaskBook(store, "boot-1", lambda: None)
    running, stopping = a_spec("x"), a_spec("x")
    book.apply(Desired(version=4, tasks=(running, stopping)))
    for spec in (running, stopping):
        task = book.get(spec.task_id)
        assert task is not None
        book.update(task, P.RUNNING, container_id="c")
    book.apply(Desired(version=5, tasks=(running, stopping.model_copy(update={"stop": True}))))
    again = TaskBook(store, "boot-1", lambda: None)
    again.load()
    wanted = again.wanted()
    assert {task_id: (w.phase, w.stop) for task_id, w in wanted.items()} == {
        running.task_id: (P.RUNNING, False),
        stopping.task_id: (P.RUNNING, True),
    }
    assert again.version == -1  # so it asks
