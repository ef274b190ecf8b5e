"""A site with one node and people of every role, each with an API client."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.factories.api import Api, World


@pytest.fixture
def world(db: None) -> "World":
    from tests.factories.api import a_world  # noqa: PLC0415 - the settings are not loaded yet up there

    return a_world()


@pytest.fixture
def alice(world: "World") -> "Api":
    """A member of the site's group."""
    return world.alice


@pytest.fixture
def root(world: "World") -> "Api":
    """A platform admin."""
    return world.root
