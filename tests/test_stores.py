"""The stores that conftest starts are real and belong to this test process."""

import pytest
import redis
from django.conf import settings
from django.db import connection


def test_valkey_answers(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.ping()


@pytest.mark.django_db
def test_the_database_is_postgres_18_and_for_tests_alone() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        assert int(cursor.fetchone()[0]) >= 180000
    assert connection.settings_dict["NAME"].startswith("test_")
    assert settings.SETTINGS_MODULE == "aistation.settings.test"
