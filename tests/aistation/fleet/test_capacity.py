"""The database refuses to overbook a node or a card, whoever asks and however many at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from aistation.fleet import services
from aistation.fleet.models import Device, Node
from aistation.fleet.services import DeviceAmount, NodeAmount
from tests.aistation.fleet.builders import V100_MIB, a_device, a_node, a_pool

SLICE_MIB = (V100_MIB - 512) // 8


@pytest.mark.django_db
class TestTaking:
    def test_what_is_taken_and_given_back_leaves_nothing(self) -> None:
        node = a_node(a_pool(), devices=1)
        card = node.devices.get()
        services.take_node(node.pk, 4_000, 16_384)
        services.take_device(card.pk, SLICE_MIB, 125)
        node.refresh_from_db()
        card.refresh_from_db()
        assert (node.cpu_taken_milli, node.memory_taken_mib) == (4_000, 16_384)
        assert (card.memory_taken_mib, card.taken_milli) == (SLICE_MIB, 125)
        services.give_back_node(node.pk, 4_000, 16_384)
        services.give_back_device(card.pk, SLICE_MIB, 125)
        node.refresh_from_db()
        card.refresh_from_db()
        assert (node.cpu_taken_milli, node.memory_taken_mib, card.memory_taken_mib, card.taken_milli) == (0, 0, 0, 0)

    def test_amounts_for_the_same_row_add_up(self) -> None:
        node = a_node(a_pool(), devices=2)
        first, second = node.devices.order_by("pk")
        services.take_nodes([NodeAmount(node.pk, 1_000, 10), NodeAmount(node.pk, 500, 5)])
        services.take_devices(
            [DeviceAmount(second.pk, 1, 1), DeviceAmount(first.pk, 2, 2), DeviceAmount(second.pk, 3, 3)]
        )
        node.refresh_from_db()
        assert (node.cpu_taken_milli, node.memory_taken_mib) == (1_500, 15)
        assert list(Device.objects.order_by("pk").values_list("memory_taken_mib", "taken_milli")) == [(2, 2), (4, 4)]

    def test_nothing_asked_changes_nothing(self, django_assert_num_queries: Any) -> None:
        with django_assert_num_queries(0):
            services.take_nodes([])
            services.bump_desired([])

    @pytest.mark.parametrize(("memory_mib", "milli"), [(V100_MIB + 1, 1), (1, 1001), (1, 40_000)])
    def test_a_card_never_gives_more_than_it_has(self, memory_mib: int, milli: int) -> None:
        card = a_device(a_node(a_pool()), "GPU-1")
        _refused(lambda: services.take_device(card.pk, memory_mib, milli))

    @pytest.mark.parametrize(("cpu_milli", "memory_mib"), [(48_001, 1), (1, 393_217)])
    def test_a_node_never_gives_more_than_it_has(self, cpu_milli: int, memory_mib: int) -> None:
        node = a_node(a_pool())
        _refused(lambda: services.take_node(node.pk, cpu_milli, memory_mib))

    def test_a_card_whose_memory_is_unknown_gives_nothing(self) -> None:
        """B056"""
        card = a_device(a_node(a_pool()), "GPU-1", memory_mib=None)
        _refused(lambda: services.take_device(card.pk, 1, 1))

    def test_more_than_was_taken_cannot_be_given_back(self) -> None:
        node = a_node(a_pool(), devices=1)
        _refused(lambda: services.give_back_node(node.pk, 1, 0))
        _refused(lambda: services.give_back_device(node.devices.get().pk, 0, 1))

    def test_a_row_that_is_gone_refuses(self) -> None:
        _refused(lambda: services.take_node(999_999, 1, 1))

    def test_what_is_over_a_shrunken_capacity_falls_and_never_rises_again(self) -> None:
        node = a_node(a_pool(), cpu_milli=1_000, cpu_taken_milli=3_000, cpu_over_milli=3_000)
        card = a_device(node, "GPU-1", memory_mib=None, memory_taken_mib=100, memory_over_mib=100, taken_milli=500)
        services.give_back_node(node.pk, 1_000, 0)
        services.give_back_device(card.pk, 40, 200)
        _refused(lambda: services.take_node(node.pk, 1, 0))
        _refused(lambda: services.take_device(card.pk, 1, 1))
        node.refresh_from_db()
        card.refresh_from_db()
        assert (node.cpu_taken_milli, node.cpu_over_milli) == (2_000, 2_000)
        assert (card.memory_taken_mib, card.memory_over_mib) == (60, 60)

    def test_locks_are_all_taken_before_the_first_row_is_written(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                f"EXPLAIN {services.capacity._TAKE_NODES}", {"ids": [1, 2], "first": [1, 1], "second": [1, 1]}
            )
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert "One-Time Filter" in plan


@pytest.mark.django_db(transaction=True)
class TestTogether:
    def test_takers_at_once_never_pass_what_a_card_has(self) -> None:
        """I1: twelve threads want an eighth of a card that holds eight."""
        card = a_device(a_node(a_pool()), "GPU-1")
        taken = _at_once(12, lambda _: services.take_device(card.pk, SLICE_MIB, 125))
        card.refresh_from_db()
        assert sum(taken) == 8
        assert (card.taken_milli, card.memory_taken_mib) == (1000, 8 * SLICE_MIB)

    def test_takers_of_the_same_rows_in_any_order_do_not_deadlock(self) -> None:
        pool = a_pool()
        ids = [a_node(pool, f"node-{index}").pk for index in range(6)]
        orders = [ids if index % 2 else ids[::-1] for index in range(8)]

        def take(index: int) -> None:
            services.take_nodes([NodeAmount(node_id, 100, 1) for node_id in orders[index]])
            services.bump_desired(orders[index])

        assert all(_at_once(8, take))
        assert set(Node.objects.values_list("cpu_taken_milli", "desired_version")) == {(800, 9)}


def _refused(change: Callable[[], None]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        change()


def _at_once(threads: int, work: Callable[[int], None]) -> list[bool]:
    """Run ``work`` in that many threads, each in its own transaction; True where it was not refused."""

    def run(index: int) -> bool:
        try:
            with transaction.atomic():
                work(index)
        except IntegrityError:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))
