"""rediss://: nginx speaks TLS with the store, and only with the one that its certificate names."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.headroom_edge.nginx_lua.world import AMPLE, ASKED, lua_nginx, needs_lua
from tests.valkeys import SpareValkey

pytestmark = needs_lua


def write_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    certificate, private = folder / f"{name}.pem", folder / f"{name}.key"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, private


@contextmanager
def encrypted(store_port: int, certificate: Path, private: Path) -> Iterator[int]:
    """TLS in front of a store that has none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private)
    loop = asyncio.new_event_loop()

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        store_reader, store_writer = await asyncio.open_connection("127.0.0.1", store_port)
        await asyncio.gather(pump(reader, store_writer), pump(store_reader, writer))

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield server.sockets[0].getsockname()[1]
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)


@pytest.mark.parametrize(
    ("named", "trusts", "options", "degraded"),
    [
        ("localhost", True, "", False),
        ("localhost", False, "", True),
        ("elsewhere", True, "", True),
        ("elsewhere", False, "?ssl_cert_reqs=none", False),
    ],
)
def test_it_asks_only_the_store_that_the_certificate_names(
    store: redis.Redis,
    valkey_server: SpareValkey,
    tmp_path: Path,
    named: str,
    trusts: bool,
    options: str,
    degraded: bool,
) -> None:
    certificate, private = write_certificate(tmp_path, named)
    http = f"lua_ssl_trusted_certificate {certificate};" if trusts else ""
    with encrypted(valkey_server.port, certificate, private) as port:
        url = f"rediss://localhost:{port}/0{options}"
        with lua_nginx(tmp_path, url, settings=AMPLE, http=http, locations=ASKED) as running:
            answers = [running.client.get("/ask", x_tenant="acme") for _ in range(2)]
    assert [answer.headers.get("headroom-degraded") for answer in answers] == ["open" if degraded else None] * 2
