"""What a submit refuses at once, and what it queues."""

from typing import TYPE_CHECKING

import pytest

from aistation.core.errors import DomainError, InvalidInputError, NeverFitsError

if TYPE_CHECKING:
    from tests.factories.world import Site


@pytest.fixture
def site(db: None) -> "Site":
    from tests.factories.world import a_node, a_site  # noqa: PLC0415 - the settings are not loaded yet up there

    made = a_site()
    a_node("n1", made.pool)
    return made


def refusal(site: "Site", **asked: object) -> DomainError:
    from tests.factories.work import submitted  # noqa: PLC0415

    with pytest.raises(DomainError) as caught:
        submitted(site, **asked)
    return caught.value


def test_more_cards_than_any_node_has_is_refused_with_the_number_that_would_pass(site: "Site") -> None:
    """B015."""
    error = refusal(site, gpus=9)
    assert isinstance(error, NeverFitsError)
    assert [(e.field, e.facts["would_pass"], e.facts["scope"]) for e in error.errors] == [("resources.gpus", 8, "pool")]


def test_every_scope_that_forbids_it_is_named(site: "Site") -> None:
    """B015: the pool, the group and the user at once."""
    from aistation.quotas.services import QuotaChange, set_quotas  # noqa: PLC0415
    from tests.factories.world import T0  # noqa: PLC0415

    for user, limit in ((None, 4000), (site.user, 2000)):
        change = QuotaChange(pool=None, limits={"gpu_milli": limit}, guaranteed={}, counts={"max_priority": 60})
        set_quotas(group=site.group, user=user, changes=[change], now=T0, actor=site.actor)
    error = refusal(site, gpus=9, priority=61)
    assert sorted((e.field, str(e.facts.get("scope", ""))) for e in error.errors) == [
        ("priority", ""),
        ("resources.gpus", "group"),
        ("resources.gpus", "pool"),
        ("resources.gpus", "user"),
    ]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"gpu_memory_mib": 40_000}, "resources.gpu_memory_mib"),
        ({"gpu_slices": 9}, "resources.gpu_slices"),
        ({"gpu_slices": 0}, "resources.gpu_slices"),
        ({"gpus": 0, "gpu_memory_mib": 4096}, "resources.gpus"),
        ({"gpu_model": "H100"}, "resources.gpu_model"),
        ({"cpu_milli": 48_001}, "resources.cpu_milli"),
        ({"memory_mib": 393_217}, "resources.memory_mib"),
    ],
)
def test_what_can_never_fit_is_refused_and_names_its_field(site: "Site", asked: dict[str, object], field: str) -> None:
    """B015."""
    error = refusal(site, **asked)
    assert isinstance(error, NeverFitsError)
    assert field in [e.field for e in error.errors]


@pytest.mark.parametrize("asked", [{"gpus": 8}, {"gpu_slices": 8}, {"gpu_memory_mib": 32_768}, {"cpu_milli": 48_000}])
def test_what_fits_an_idle_node_exactly_is_queued(site: "Site", asked: dict[str, object]) -> None:
    from tests.factories.work import submitted  # noqa: PLC0415

    assert submitted(site, **asked).state == "queued"


def test_names_that_do_not_exist_are_all_told_at_once(site: "Site") -> None:
    error = refusal(site, group="nobody", pool="nowhere", image="nothing")
    assert isinstance(error, InvalidInputError)
    assert {e.field for e in error.errors} == {"group", "pool"}
    assert [e.field for e in refusal(site, image="nothing").errors] == ["image"]


@pytest.mark.parametrize(
    ("env", "field"),
    [
        ({"A B": "x"}, "env.A B"),
        ({"1X": "x"}, "env.1X"),
        ({"": "x"}, "env."),
        ({"LD_PRELOAD": "x"}, "env.LD_PRELOAD"),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, "env.NVIDIA_VISIBLE_DEVICES"),
        ({"X": "a\x00b"}, "env.X"),
        ({"X": "a" * 131_072}, "env.X"),
    ],
)
def test_variables_that_no_container_could_take_are_refused(site: "Site", env: dict[str, str], field: str) -> None:
    """B073, B059."""
    assert [e.field for e in refusal(site, env=env).errors] == [field]


def test_awkward_but_possible_variables_are_kept_as_they_are(site: "Site") -> None:
    """B073."""
    from tests.factories.work import submitted  # noqa: PLC0415

    env = {
        "A": "line\nline\r\n",
        "B": "$(id) `id` 'q' \"q\"",
        "C": "",
        "D": "-x=y",
        "E": "\N{ROCKET}",
        "F": "f" * 130_000,
    }
    assert submitted(site, env=env).env == env
