"""The cluster in numbers for Prometheus, read from the database at each scrape. No label names a workload."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aistation.fleet import selectors as fleet
from aistation.quotas.selectors import QUANTITY_NAMES, list_use
from aistation.scheduling.selectors import scheduler_state
from aistation.tenancy.policy import Actor
from aistation.workloads import selectors as workloads
from aistation.workloads.lifecycle import Kind


def exposition(actor: Actor) -> bytes:
    """The text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Cluster(actor))
    return generate_latest(registry)


class _Cluster(Collector):
    """Metrics as of one scrape."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield from _workloads(self._actor)
        yield from _capacity(self._actor)
        yield from _cards(self._actor)
        yield from _use(self._actor)
        yield from _scheduler()


def _gauge(name: str, text: str, labels: Iterable[str], samples: Iterable[tuple[Iterable[Any], float]]) -> Metric:
    family = GaugeMetricFamily(f"aistation_{name}", text, labels=list(labels))
    for values, number in samples:
        family.add_metric([str(value) for value in values], number)
    return family


def _workloads(actor: Actor) -> Iterator[Metric]:
    counts = [((kind.value, state), count) for kind in Kind for state, count in workloads.state_counts(kind).items()]
    yield _gauge("workloads", "Workloads by state.", ("kind", "state"), counts)
    pools: Counter[str] = Counter(workloads.list_waiting(actor).values_list("pool__name", flat=True))
    yield _gauge(
        "queue_length", "Workloads that wait, held ones too.", ("pool",), [((p,), n) for p, n in pools.items()]
    )


def _capacity(actor: Actor) -> Iterator[Metric]:
    pools = fleet.list_capacity(actor)
    numbers = {
        "pool_gpus": ("Usable cards.", "usable_cards"),
        "pool_gpus_free": ("Usable cards of which nothing is taken.", "free_cards"),
        "pool_slices": ("Slices of usable cards.", "usable_slices"),
        "pool_slices_free": ("Slices that could be taken now.", "free_slices"),
        "pool_cpu_milli": ("CPU of usable nodes, with overcommit.", "usable_cpu_milli"),
        "pool_cpu_milli_free": ("CPU that could be taken now.", "free_cpu_milli"),
        "pool_memory_mib": ("Memory of usable nodes.", "usable_memory_mib"),
        "pool_memory_mib_free": ("Memory that could be taken now.", "free_memory_mib"),
    }
    for name, (text, field) in numbers.items():
        yield _gauge(name, text, ("pool",), [((pool.pool,), getattr(pool, field)) for pool in pools])
    states = Counter((node.pool.name, node.state) for node in fleet.list_nodes(actor))
    yield _gauge("nodes", "Nodes by state.", ("pool", "state"), list(states.items()))


def _cards(actor: Actor) -> Iterator[Metric]:
    cards = list(fleet.list_devices(actor))
    numbers = {
        "gpu_usable": ("1: may be given out.", "usable"),
        "gpu_taken_milli": ("Thousandths of the card that are given out.", "taken_milli"),
        "gpu_memory_taken_mib": ("Memory that is given out.", "memory_taken_mib"),
        "gpu_memory_mib": ("Memory that the card reports.", "memory_mib"),
        "gpu_memory_used_mib": ("Memory in use as the driver says.", "memory_used_mib"),
        "gpu_utilisation_percent": ("Utilisation as the driver says.", "utilisation_percent"),
        "gpu_temperature_celsius": ("Temperature.", "temperature_c"),
        "gpu_power_milliwatts": ("Power draw.", "power_mw"),
    }
    for name, (text, field) in numbers.items():
        known = [(card, getattr(card, field)) for card in cards if getattr(card, field) is not None]
        samples = [((card.node.pool.name, card.node.name, card.uuid), number) for card, number in known]
        yield _gauge(name, text, ("pool", "node", "uuid"), samples)


def _use(actor: Actor) -> Iterator[Metric]:
    scopes = list(list_use(actor).filter(user=None, pool=None))
    for quantity in QUANTITY_NAMES:
        samples = [((scope.group.name,), getattr(scope, f"{quantity}_used")) for scope in scopes]
        yield _gauge(f"group_{quantity}_used", "What the group holds now.", ("group",), samples)


def _scheduler() -> Iterator[Metric]:
    state = scheduler_state()
    yield _gauge("scheduler_epoch", "Rises with each change of the deciding process.", (), [((), state.epoch)])
    yield _gauge("scheduler_failing", "1: the last cycle met an error.", (), [((), state.has_error)])
    if state.last_cycle_at is not None and state.last_cycle_ms is not None:
        at = state.last_cycle_at.timestamp()
        yield _gauge("scheduler_last_cycle_timestamp_seconds", "When it last decided.", (), [((), at)])
        yield _gauge("scheduler_last_cycle_milliseconds", "How long that took.", (), [((), state.last_cycle_ms)])
