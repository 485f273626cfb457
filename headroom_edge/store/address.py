"""The store's address, parsed from a URL."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

SCHEMES: Final = ("redis", "rediss", "unix")
EXAMPLE: Final = "write it like redis://user:password@host:6379/0, rediss://host:6380/0 or unix:///run/valkey.sock?db=0"
DEFAULT_PORT: Final = 6379
_VERIFY: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_QUERY: Final = frozenset({"db", "ssl_cert_reqs", "ssl_check_hostname", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    path: str = ""  # of a Unix socket; empty: use host and port
    db: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        """For log messages: without user and password."""
        return self.path or f"{self.host}:{self.port}"


def parse_url(url: str) -> Address:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(
            f"The store's URL has an unsupported scheme, {parts.scheme!r} (only single servers work so far); {EXAMPLE}."
        )
    query = dict(parse_qsl(parts.query))
    unknown = sorted(query.keys() - _QUERY)
    if unknown:
        raise ValueError(f"The store's URL has an unknown option, {unknown[0]!r}; remove it.")
    local = parts.scheme == "unix"
    if local and not parts.path:
        raise ValueError(f"The store's URL has no socket path; {EXAMPLE}.")
    return Address(
        host=parts.hostname or "localhost",
        port=_port(parts),
        path=unquote(parts.path) if local else "",
        db=_db(query.get("db", "" if local else parts.path.strip("/"))),
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        tls=_tls(query) if parts.scheme == "rediss" else None,
    )


def _port(parts: SplitResult) -> int:
    try:
        return parts.port or DEFAULT_PORT
    except ValueError:
        raise ValueError(f"The port in the store's URL must be a number from 1 to 65535; {EXAMPLE}.") from None


def _db(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"The database in the store's URL must be a whole number, not {text!r}; {EXAMPLE}.")
    return int(text)


def _tls(query: dict[str, str]) -> ssl.SSLContext:
    verify = query.get("ssl_cert_reqs", "required")
    if verify not in _VERIFY:
        raise ValueError(f"ssl_cert_reqs in the store's URL must be one of {', '.join(_VERIFY)}, not {verify!r}.")
    context = ssl.create_default_context(cafile=query.get("ssl_ca_certs"))
    context.check_hostname = verify == "required" and query.get("ssl_check_hostname", "true").lower() != "false"
    context.verify_mode = _VERIFY[verify]
    if "ssl_certfile" in query:
        context.load_cert_chain(query["ssl_certfile"], query.get("ssl_keyfile"))
    return context
