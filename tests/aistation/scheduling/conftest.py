"""A site with one node for each test."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.factories.world import Site


@pytest.fixture
def site(db: None) -> "Site":
    from tests.factories.world import a_node, a_site  # noqa: PLC0415 - the settings are not loaded yet up there

    made = a_site()
    a_node("n1", made.pool)
    return made
