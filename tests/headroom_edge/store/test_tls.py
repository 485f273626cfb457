"""rediss://, with TLS ended in front of a real server. The certificate signs itself and holds for localhost only."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.headroom_edge.limiter.both import MakeLimiter
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish
from tests.valkeys import SpareValkey

CERTIFICATES = Path(__file__).parent / "certificates"
CERTIFICATE, KEY = CERTIFICATES / "localhost.pem", CERTIFICATES / "localhost.key"
PASSWORD = "hunter2"


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(upstream_port: int) -> asyncio.Server:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", upstream_port)
        ways = (copy(reader, upstream_writer), copy(upstream_reader, writer))
        await asyncio.gather(*ways, return_exceptions=True)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE, KEY)
    return await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)


@contextmanager
def tls_front(upstream_port: int) -> Iterator[int]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(serve(upstream_port), loop).result(10)
    yield server.sockets[0].getsockname()[1]
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(120)


@pytest.fixture
def tls_port(spare_valkey: Callable[..., SpareValkey]) -> Iterator[int]:
    server = spare_valkey()
    with server.client() as client:
        publish(client, configuration(limit("hourly", "fixed_window", limit=1_000, window="1h")))
        client.config_set("requirepass", PASSWORD)
    with tls_front(server.port) as port:
        yield port


def test_it_speaks_tls_and_logs_in(tls_port: int, make_limiter: MakeLimiter) -> None:
    limiter = make_limiter(f"rediss://:{PASSWORD}@localhost:{tls_port}/0?ssl_ca_certs={CERTIFICATE}", fail="closed")
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT).remaining == 999
    decisions = limiter.at_once(40, tenant=TENANT, endpoint=ENDPOINT)
    assert sorted(decision.remaining for decision in decisions) == list(range(959, 999))
    assert limiter.degraded == 0


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("rediss://:{password}@localhost:{port}", "certificate verify failed"),
        ("redis://:{password}@localhost:{port}", "cannot be reached|connection"),
        ("rediss://:wrong@localhost:{port}?ssl_ca_certs={ca}", "WRONGPASS"),
        ("rediss://localhost:{port}?ssl_ca_certs={ca}", "add it to the URL"),
    ],
    ids=["a stranger's certificate", "no TLS", "a wrong password", "no password"],
)
def test_a_store_that_does_not_let_us_in_is_a_failure_and_no_error(
    tls_port: int, make_limiter: MakeLimiter, caplog: pytest.LogCaptureFixture, url: str, cause: str
) -> None:
    limiter = make_limiter(url.format(port=tls_port, ca=CERTIFICATE, password=PASSWORD), fail="closed")
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT).failure == "closed"
    (record,) = caplog.records
    assert any(part in record.getMessage() for part in cause.split("|"))


def test_a_plain_server_wants_its_password_too(
    spare_valkey: Callable[..., SpareValkey], make_limiter: MakeLimiter
) -> None:
    server = spare_valkey()
    with server.client() as client:
        publish(client, configuration(limit("hourly", "fixed_window", limit=1_000, window="1h")))
        client.config_set("requirepass", PASSWORD)
    assert make_limiter(server.url).check(tenant=TENANT, endpoint=ENDPOINT).degraded
    known = make_limiter(server.url.replace("redis://", f"redis://default:{PASSWORD}@"))
    assert not known.check(tenant=TENANT, endpoint=ENDPOINT).degraded
