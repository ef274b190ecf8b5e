"""A site, people, and a browser of each."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.test import Client

if TYPE_CHECKING:
    from aistation.tenancy.models import User
    from tests.factories.world import Site


@pytest.fixture
def site(db: None) -> "Site":
    from tests.factories.world import a_node, a_site  # noqa: PLC0415 - the settings are not loaded yet up there

    made = a_site()
    a_node("n1", made.pool)
    return made


@pytest.fixture
def make_user(db: None) -> Callable[..., "User"]:
    """A person of no group: ``make_user("eve")``, ``make_user("root", admin=True)``."""
    from tests.factories.world import a_user  # noqa: PLC0415 - as above

    return a_user


@pytest.fixture
def alice(site: "Site") -> "User":
    """The member of the site's group."""
    return site.user


@pytest.fixture
def browser_of() -> Callable[["User"], Client]:
    """A signed-in browser. It checks CSRF tokens only where a test asks for that."""

    def sign_in(user: "User") -> Client:
        client = Client()
        client.force_login(user)
        return client

    return sign_in
