"""Sends a webhook to a host whose DNS server changes its mind. Run in a network and mount namespace of its own:

    unshare --map-root-user --mount --net python -m tests.quotas.alerts.rebinding FOLDER ANSWERS

ANSWERS are the addresses that the DNS server gives to the first, second, … look-up, the last one from then on. `+`
joins several in one answer. Prints as JSON how often it was asked, who got a connection, and how it ended.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from quotas.alerts import webhook
from quotas.alerts.webhook import UnreachableError, resolve_url

HOST: Final = "rebinding.example"
PUBLIC: Final = "93.184.216.34"  # of this machine alone, in this namespace
LOOPBACK: Final = "127.0.0.1"
RECORD_A: Final = 1


class Namespace:
    """The network as the process sees it: two addresses, and a resolver that asks our DNS server."""

    def __init__(self, folder: Path) -> None:
        for command in (
            ["ip", "link", "set", "lo", "up"],
            ["ip", "address", "add", f"{PUBLIC}/32", "dev", "lo"],
        ):
            subprocess.run(command, check=True)
        for name, text in (("resolv.conf", f"nameserver {LOOPBACK}\n"), ("nsswitch.conf", "hosts: files dns\n")):
            (folder / name).write_text(text)
            subprocess.run(["mount", "--bind", str(folder / name), f"/etc/{name}"], check=True)


class NameServer:
    def __init__(self, answers: list[list[str]]) -> None:
        self._answers = answers
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((LOOPBACK, 53))
        self.asked = 0  # for IPv4 addresses
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            query, client = self._socket.recvfrom(512)
            self._socket.sendto(self._reply(query), client)

    def _reply(self, query: bytes) -> bytes:
        end = query.index(b"\0", 12) + 5
        (kind,) = struct.unpack(">H", query[end - 4 : end - 2])
        addresses = self._next() if kind == RECORD_A else []
        # Answers a recursive question; the name is a pointer to the one in the question; not to be kept (TTL 0).
        head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(addresses), 0, 0)
        records = [
            b"\xc0\x0c" + struct.pack(">HHIH", RECORD_A, 1, 0, 4) + socket.inet_aton(address) for address in addresses
        ]
        return head + query[12:end] + b"".join(records)

    def _next(self) -> list[str]:
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        return answer


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class SecureServer(HTTPServer):
    """Counts its connections, and answers over TLS."""

    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        super().__init__((address, 443), Handler)
        self._context, self.connections = context, 0
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def get_request(self) -> Any:
        plain, client = super().get_request()
        self.connections += 1
        return self._context.wrap_socket(plain, server_side=True), client


def certificate(folder: Path) -> ssl.SSLContext:
    """For the host, signed by itself; this process trusts it and nothing else."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "certificate.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    os.environ["SSL_CERT_FILE"] = str(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def main(folder: Path, answers: list[list[str]]) -> None:
    Namespace(folder)
    context, names = certificate(folder), NameServer(answers)
    servers = {address: SecureServer(address, context) for address in (PUBLIC, LOOPBACK)}
    url, ended = f"https://{HOST}/hook", "delivered"
    try:
        resolve_url(url)  # what happens when the target is created
        webhook.send(url, {"events": []}, b"secret", 1)
    except UnreachableError as error:
        ended = str(error)
    told = {address: server.connections for address, server in servers.items()}
    # What a client that looks the name up itself would connect to now.
    now = sorted({str(info[4][0]) for info in socket.getaddrinfo(HOST, 443, socket.AF_INET)})
    sys.stdout.write(json.dumps({"asked": names.asked, "connections": told, "ended": ended, "now": now}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [answer.split("+") for answer in sys.argv[2:]])
