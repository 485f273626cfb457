"""The store's address, parsed from a URL: one server, a cluster, or a primary that Sentinels watch."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

CLUSTER: Final = "+cluster"
SENTINEL: Final = "+sentinel"
SCHEMES: Final = (
    *("redis", "rediss", "unix"),
    *("redis+cluster", "rediss+cluster"),
    *("redis+sentinel", "rediss+sentinel"),
)
EXAMPLE: Final = (
    "write it like redis://user:password@host:6379/0, rediss://host:6380/0, unix:///run/valkey.sock?db=0, "
    "redis+cluster://host1:6379,host2:6379 or redis+sentinel://host1:26379,host2:26379/name/0"
)
DEFAULT_PORT: Final = 6379
SENTINEL_PORT: Final = 26379
_VERIFY: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_TLS: Final = frozenset({"ssl_cert_reqs", "ssl_check_hostname", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_OF_SENTINELS: Final = frozenset({"sentinel_username", "sentinel_password"})
_PLACE: Final = re.compile(r"(?P<host>\[[^\]]+\]|[^:\[\]]*)(?::(?P<port>\d*))?")


@dataclass(frozen=True, slots=True)
class Address:
    """One server."""

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

    def at(self, host: str, port: int) -> Address:
        """Another server of the same installation."""
        return replace(self, host=host, port=port)


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Any of these nodes tells the others."""

    nodes: tuple[Address, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.nodes))


@dataclass(frozen=True, slots=True)
class SentinelAddress:
    """Any of these Sentinels tells where the primary is."""

    sentinels: tuple[Address, ...]
    name: str  # under which the Sentinels know the primary
    primary: Address  # how to sign in there; its host and port are asked for

    def __str__(self) -> str:
        return f"{self.name} of {','.join(map(str, self.sentinels))}"


StoreAddress: TypeAlias = Address | ClusterAddress | SentinelAddress


def parse_url(url: str) -> StoreAddress:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"The store's URL has an unsupported scheme, {parts.scheme!r}; {EXAMPLE}.")
    query = dict(parse_qsl(parts.query))
    known = _TLS | {"db"} | (_OF_SENTINELS if parts.scheme.endswith(SENTINEL) else frozenset())
    unknown = sorted(query.keys() - known)
    if unknown:
        raise ValueError(f"The store's URL has an unknown option, {unknown[0]!r}; remove it.")
    if parts.scheme == "unix":
        return _socket(parts, query)
    if parts.scheme.endswith(CLUSTER):
        return _cluster(parts, query)
    if parts.scheme.endswith(SENTINEL):
        return _watched(parts, query)
    (address,) = _places(parts, query, DEFAULT_PORT, most=1)
    return replace(address, db=_db(query.get("db", parts.path.strip("/"))))


def is_clustered(url: str) -> bool:
    return urlsplit(url).scheme.endswith(CLUSTER)


def _socket(parts: SplitResult, query: Mapping[str, str]) -> Address:
    if not parts.path:
        raise ValueError(f"The store's URL has no socket path; {EXAMPLE}.")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    path, db = unquote(parts.path), _db(query.get("db", ""))
    return Address("localhost", DEFAULT_PORT, path=path, db=db, username=username, password=password)


def _cluster(parts: SplitResult, query: Mapping[str, str]) -> ClusterAddress:
    if _db(query.get("db", parts.path.strip("/"))):
        raise ValueError("A cluster has database 0 only; remove the number from the end of the store's URL.")
    return ClusterAddress(_places(parts, query, DEFAULT_PORT))


def _watched(parts: SplitResult, query: Mapping[str, str]) -> SentinelAddress:
    name, _, db = parts.path.strip("/").partition("/")
    if not name:
        raise ValueError(f"The store's URL does not name the primary that the Sentinels watch; {EXAMPLE}.")
    places = _places(parts, query, SENTINEL_PORT)
    username, password = query.get("sentinel_username", ""), query.get("sentinel_password", "")
    sentinels = tuple(replace(place, username=username, password=password) for place in places)
    return SentinelAddress(sentinels, unquote(name), replace(places[0], db=_db(query.get("db", db))))


def _places(parts: SplitResult, query: Mapping[str, str], port: int, most: int = 1_000) -> tuple[Address, ...]:
    """The servers that the URL lists, with commas between them."""
    userinfo, _, listed = parts.netloc.rpartition("@")
    username, _, password = userinfo.partition(":")
    tls = _tls(query) if parts.scheme.startswith("rediss") else None
    if "+" in parts.scheme and not all(listed.split(",")):
        raise ValueError(f"The store's URL lacks the name of a server; {EXAMPLE}.")
    places = [_place(text, port) for text in listed.split(",")]
    if len(places) > most:
        raise ValueError(f"The store's URL names several servers; {EXAMPLE}.")
    return tuple(
        Address(host, port, username=unquote(username), password=unquote(password), tls=tls) for host, port in places
    )


def _place(text: str, default: int) -> tuple[str, int]:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} in the store's URL is not a host and a port; {EXAMPLE}.")
    port = int((found["port"] or "")[:6] or default)
    if not 1 <= port <= 65_535:
        raise ValueError(f"The port in the store's URL must be a number from 1 to 65535; {EXAMPLE}.")
    return found["host"].strip("[]").lower() or "localhost", port


def _db(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"The database in the store's URL must be a whole number, not {text!r}; {EXAMPLE}.")
    return int(text)


def _tls(query: Mapping[str, str]) -> ssl.SSLContext:
    verify = query.get("ssl_cert_reqs", "required")
    if verify not in _VERIFY:
        raise ValueError(f"ssl_cert_reqs in the store's URL must be one of {', '.join(_VERIFY)}, not {verify!r}.")
    context = ssl.create_default_context(cafile=query.get("ssl_ca_certs"))
    context.check_hostname = verify == "required" and query.get("ssl_check_hostname", "true").lower() != "false"
    context.verify_mode = _VERIFY[verify]
    if "ssl_certfile" in query:
        context.load_cert_chain(query["ssl_certfile"], query.get("ssl_keyfile"))
    return context
