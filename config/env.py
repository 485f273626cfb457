"""Reads environment variables by type. An invalid value gets one sentence that says what to change."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import combinations
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import OperationalError

from headroom_edge.store.address import EXAMPLE, Address, SentinelAddress, parse_url

TRUE: Final = frozenset({"1", "true", "yes", "on"})
FALSE: Final = frozenset({"0", "false", "no", "off"})
NONE: Final = "none"  # an empty list, where an empty text would mean the default
POSTGRES_SCHEMES: Final = frozenset({"postgres", "postgresql"})
WATCHED: Final = "redis+sentinel://"
BROKER_SCHEMES: Final = frozenset({"redis", "rediss", "unix", "redis+socket", "amqp", "amqps"})
MAIL_SCHEMES: Final = frozenset({"smtp", "smtps"})
HTTP_SCHEMES: Final = frozenset({"http", "https"})
LAST_PORT: Final = 65535

SECRET_CHARACTERS: Final = 50
DEFAULT_SECRET_WORDS: Final = ("insecure", "changeme", "change-me", "secret_key", "default")


class SettingError(ImproperlyConfigured):
    """A variable is missing or invalid. The message is one sentence for the operator."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    try:
        yield
    except ImproperlyConfigured as error:
        sys.stderr.write(f"headroom: {error}\n")
        raise SystemExit(2) from None
    except OperationalError as error:
        first = str(error).strip().partition("\n")[0]
        way = (
            "correct DATABASE_URL" if text("DATABASE_URL", "") else "set HEADROOM_HOME to the folder of your `make up`"
        )
        sys.stderr.write(f"headroom: PostgreSQL cannot be reached; start it, or {way} ({first}).\n")
        raise SystemExit(2) from None


def text(name: str, default: str) -> str:
    # `export NAME=` and compose files set variables to an empty text. That counts as unset.
    return os.environ.get(name, "").strip() or default


def shown(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:40] + "…")


def flag(name: str, default: bool) -> bool:
    value = text(name, "1" if default else "0").lower()
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise SettingError(f"{name} is {shown(value)}; set it to 1 or 0.")


def integer(name: str, default: int, low: int, high: int) -> int:
    value = text(name, str(default))
    if value.isascii() and value.isdigit() and low <= int(value[:20]) <= high:
        return int(value)
    raise SettingError(f"{name} is {shown(value)}; set it to a whole number from {low} to {high}.")


def other_port(name: str, steps: int, others: Mapping[str, int]) -> int:
    """Unless it is set, so many ports after PORT. `others`: the ports that are taken, by their names."""
    value = others["PORT"] + steps
    if value > LAST_PORT and not text(name, ""):
        raise SettingError(f"PORT is {others['PORT']}, so {name} would be {value}, which is no port; set {name} too.")
    value = integer(name, min(value, LAST_PORT), 1, LAST_PORT)
    for other, port in others.items():
        if value == port:
            raise SettingError(f"{name} and {other} are both {port}; set them to different ports.")
    return value


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = text(name, default)
    if value in allowed:
        return value
    raise SettingError(f"{name} is {shown(value)}; set it to one of {', '.join(allowed)}.")


def secret(name: str, local: Callable[[], str] | None, *, debug: bool) -> str:
    """`local` returns the key that a machine with embedded servers keeps in a file."""
    value = text(name, "") or (local() if local is not None else "")
    if _is_weak(value) and not debug:
        raise SettingError(f"{name} is missing, short or a well-known default; set it to 50 or more random characters.")
    return value or "debug"


def former_secrets(name: str, *, debug: bool) -> list[str]:
    """All that the variable may mean: a key can contain the comma that separates keys.

    A weak part is left out: it was never a whole key, and what it signs would be accepted.
    """
    parts = text(name, "").split(",")
    starts_and_ends = combinations(range(len(parts) + 1), 2)
    found = [",".join(parts[start:end]).strip() for start, end in starts_and_ends]
    kept = sorted({one for one in found if one and (debug or not _is_weak(one))}, key=lambda one: (len(one), one))
    if any(found) and not kept:
        raise SettingError(
            f"{name} has no key of 50 or more random characters; set it to values that SECRET_KEY had, "
            "separated by commas."
        )
    return kept


def _is_weak(value: str) -> bool:
    return len(value) < SECRET_CHARACTERS or any(word in value.lower() for word in DEFAULT_SECRET_WORDS)


def matching(name: str, default: str, pattern: str, what: str) -> str:
    value = text(name, default)
    if re.fullmatch(pattern, value, re.ASCII):
        return value
    raise SettingError(f"{name} is {shown(value)}; set it to {what}.")


def words(name: str, default: str) -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str, default: str = NONE) -> tuple[IPv4Network | IPv6Network, ...]:
    found = words(name, default)
    if found == [NONE]:
        return ()
    try:
        return tuple(ip_network(word) for word in found)
    except ValueError:
        raise SettingError(f"{name} is not a list of networks; write it like 10.0.0.0/8,192.168.7.0/24.") from None


@dataclass(frozen=True, slots=True)
class Mail:
    host: str = ""  # empty: no email
    port: int = 587
    user: str = ""
    password: str = ""
    is_tls: bool = False
    starts_tls: bool = False


def mail(name: str) -> Mail:
    """smtp://user:password@host:587 (with STARTTLS if there is a user) or smtps://… (TLS from the start)."""
    if not text(name, ""):
        return Mail()
    parts = urlsplit(url(name, "", MAIL_SCHEMES, "smtp://user:password@mail.example.com:587"))
    is_tls = parts.scheme == "smtps"
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    port = parts.port or (465 if is_tls else 587)
    return Mail(parts.hostname or "", port, user, password, is_tls, starts_tls=bool(user) and not is_tls)


def url(name: str, default: str, schemes: frozenset[str], example: str) -> str:
    value = text(name, default)
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - reading it is what checks it
    except ValueError:
        parts = urlsplit("")
    if parts.scheme in schemes and (parts.netloc or parts.path):
        return value
    raise SettingError(f"{name} is not a supported URL; set it to something like {example}.")


def store_url(name: str, default: str) -> str:
    """Of one server, of a cluster, or of a primary behind Sentinels."""
    value = text(name, default)
    try:
        parse_url(value)
    except OSError as error:
        raise SettingError(f"{name} names a certificate or key that cannot be used ({error.strerror}).") from None
    except ValueError as error:
        sentence = str(error)
        # The parser does not know where the URL comes from, and urlsplit does not even know that it is a store's.
        sentence = re.sub("the store's URL", name, sentence, flags=re.IGNORECASE)
        raise SettingError(sentence if name in sentence else f"{name} is not a supported URL; {EXAMPLE}.") from None
    return value


@dataclass(frozen=True, slots=True)
class Broker:
    url: str
    options: Mapping[str, object] = field(default_factory=dict)  # of kombu's transport


def broker(name: str, *, beside: str) -> Broker:
    """`beside`: the store that has the broker in its next database, unless the variable says otherwise."""
    if not text(name, "") and not isinstance(parse_url(beside), Address):
        raise SettingError(_which_broker(name, beside))
    value = text(name, "") or _broker_beside(beside)
    if value.startswith(WATCHED) and isinstance(address := parse_url(store_url(name, value)), SentinelAddress):
        return _watched_broker(address)
    return Broker(url(name, value, BROKER_SCHEMES, "redis://host:6379/1"))


def _which_broker(name: str, store: str) -> str:
    if isinstance(parse_url(store), SentinelAddress):
        way = f"to another database behind the same Sentinels, such as {WATCHED}host1:26379,host2:26379/name/1"
        return f"{name} is missing, and REDIS_URL names Sentinels; set it {way}."
    way = "to a Redis or Valkey that is no cluster, such as redis://host:6379/0"
    return f"{name} is missing, and REDIS_URL names a cluster, which Celery cannot use as its broker; set it {way}."


def _broker_beside(store: str) -> str:
    """The database after the one that holds the counters, on the same server."""
    parts = urlsplit(store)
    query = dict(parse_qsl(parts.query))
    if parts.scheme == "unix":
        return f"redis+socket://{parts.path}?virtual_host={int(query.get('db') or 0) + 1}"
    after = int(query.pop("db", "") or parts.path.strip("/") or 0) + 1
    return urlunsplit(parts._replace(path=f"/{after}", query=urlencode(query)))


def _watched_broker(address: SentinelAddress) -> Broker:
    """As kombu wants it: the name of the primary is an option there."""
    primary, first = address.primary, address.sentinels[0]
    user = f"{quote(primary.username, safe='')}:{quote(primary.password, safe='')}@" if primary.password else ""
    urls = (f"sentinel://{user}{_host(each)}:{each.port}/{primary.db}" for each in address.sentinels)
    login = {"username": first.username, "password": first.password}
    options = {"master_name": address.name, "sentinel_kwargs": {key: value for key, value in login.items() if value}}
    return Broker(";".join(urls), options)


def _host(address: Address) -> str:
    return f"[{address.host}]" if ":" in address.host else address.host


def database(value: str, *, pool: int) -> dict[str, object]:
    """A PostgreSQL URL as Django's connection settings. `?host=/path` is the folder of a socket."""
    parts = urlsplit(value)
    options: dict[str, object] = {"connect_timeout": 3, **dict(parse_qsl(parts.query))}
    # Without this setting, row-level security hides all rows (tenants.isolation).
    options["options"] = f"{options.get('options', '')} -c headroom.tenant=*".strip()
    name = unquote(parts.path.lstrip("/"))
    if not name:
        raise SettingError("DATABASE_URL has no database name; end it with /NAME.")
    host = options.pop("host", None) or unquote(parts.hostname or "")
    if pool:
        options["pool"] = {"min_size": 1, "max_size": pool, "timeout": 2, "max_idle": 60}
    return {
        "ENGINE": "config.database",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
        "CONN_MAX_AGE": 0 if pool else 60,
        "CONN_HEALTH_CHECKS": True,
    }


def owner_of(application: dict[str, object], owner: dict[str, object]) -> dict[str, object]:
    """The owner's connection settings, checked to be for the same database."""
    if application["NAME"] != owner["NAME"]:
        raise SettingError("MIGRATION_DATABASE_URL and DATABASE_URL name different databases; use the same in both.")
    return owner
