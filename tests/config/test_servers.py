from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from django.conf import settings
from django.db import connection

from tests.valkeys import SpareValkey


@pytest.mark.django_db
def test_tests_have_a_real_database() -> None:
    assert connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        assert cursor.fetchone() == ("test_headroom",)


def test_the_settings_name_the_same_valkey_as_the_fixture(valkey: redis.Redis) -> None:
    assert valkey.dbsize() == 0
    valkey.set("a", 1)
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        assert client.get("a") == b"1"


def test_a_spare_valkey_comes_back_at_its_address_with_its_data(spare_valkey: Callable[..., SpareValkey]) -> None:
    server = spare_valkey("--appendfsync", "always", durable=True)
    with server.client() as client:
        client.set("a", 1)
    server.kill()
    server.start()
    with server.client() as client:
        assert client.get("a") == b"1"


def test_a_paused_valkey_answers_nothing(spare_valkey: Callable[..., SpareValkey]) -> None:
    server = spare_valkey()
    server.pause()
    with server.client(0.2) as client, pytest.raises(redis.TimeoutError):
        client.ping()
    server.resume()
    with server.client() as client:
        assert client.ping()
