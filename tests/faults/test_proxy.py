from __future__ import annotations

import time

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.faults.proxy import Proxy


def dial(proxy: Proxy, seconds: float = 60) -> redis.Redis:
    return redis.Redis(port=proxy.port, socket_timeout=seconds, retry=Retry(NoBackoff(), 0))


def shorten(client: redis.Redis, seconds: float) -> None:
    """The time that its open connection waits for an answer."""
    connection = client.connection_pool.get_connection()
    connection.update_current_socket_timeout(seconds)
    client.connection_pool.release(connection)


def test_it_passes_traffic_on(proxy: Proxy) -> None:
    with dial(proxy) as client:
        assert client.ping()
        client.set("big", b"x" * 1_000_000)
        assert client.strlen("big") == 1_000_000


def test_it_delays_both_directions(proxy: Proxy) -> None:
    with dial(proxy) as client:
        client.ping()
        proxy.delay(0.05)
        start = time.monotonic()
        client.ping()
        assert time.monotonic() - start >= 0.1


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("blackhole", redis.TimeoutError),
        ("reset", redis.ConnectionError),
        ("half_close", redis.ConnectionError),
        ("refuse", redis.ConnectionError),
    ],
)
def test_a_fault_strikes_open_and_new_connections_until_healed(
    proxy: Proxy, fault: str, error: type[Exception]
) -> None:
    # Who is left without an answer gives up; the others hear of the fault at once.
    patience = 1 if fault == "blackhole" else 60
    with dial(proxy) as client, dial(proxy, patience) as late:
        client.ping()
        shorten(client, patience)
        getattr(proxy, fault)()
        with pytest.raises(error):
            client.ping()
        with pytest.raises(error):
            late.ping()
        proxy.heal()
    with dial(proxy) as healed:
        assert healed.ping()
