"""What the publisher demands of Redis before it starts (F9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from quotas.publishing import store
from quotas.publishing.publisher_process import PublisherProcess
from tests.valkeys import SpareValkey


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_server_that_evicts_is_refused(spare_valkey: Callable[..., SpareValkey], policy: str) -> None:
    server = spare_valkey("--maxmemory-policy", policy)
    with store.connect(server.url) as client, pytest.raises(store.UnfitServerError, match=f"is {policy}.*noeviction"):
        store.prepare(client)


def test_server_that_does_not_evict_gets_the_library(spare_valkey: Callable[..., SpareValkey]) -> None:
    with store.connect(spare_valkey().url) as client:
        store.prepare(client)
        assert client.fcall_ro("hr_version", 0)


def test_publisher_does_not_start_on_such_a_server(
    spare_valkey: Callable[..., SpareValkey], transactional_db: None
) -> None:
    server = spare_valkey("--maxmemory-policy", "allkeys-lru")
    with pytest.raises(store.UnfitServerError):
        PublisherProcess(server.url, shards=1).run()


def test_publish_refuses_such_a_server_in_one_line(
    spare_valkey: Callable[..., SpareValkey], settings: Settings, transactional_db: None
) -> None:
    settings.REDIS_URL = spare_valkey("--maxmemory-policy", "allkeys-lru").url
    with pytest.raises(CommandError, match="maxmemory-policy is allkeys-lru"):
        call_command("publish")


def test_publish_without_redis_says_so_in_one_line(settings: Settings, transactional_db: None) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.raises(CommandError, match="refused"):
        call_command("publish")
