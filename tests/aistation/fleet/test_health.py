"""The pages for load balancers."""

import pytest
from django.test import Client

from aistation.fleet.models import Duty
from tests.aistation.fleet.builders import a_node, a_pool


@pytest.mark.django_db
def test_the_control_plane_is_healthy_without_nodes_and_ready_with_one() -> None:
    client = Client()
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503
    node = a_node(a_pool())
    assert client.get("/readyz").status_code == 200
    node.duty = Duty.CORDONED
    node.save()
    assert client.get("/readyz").status_code == 503
