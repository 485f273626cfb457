"""Redis keys. No other Python module builds one. Must match lua/keys.lua."""

from __future__ import annotations

import re
from hashlib import sha1
from ipaddress import IPv6Address
from typing import Final, NamedTuple
from zlib import crc32

_PLAIN = re.compile(r"[A-Za-z0-9.@_-]{1,32}", re.ASCII)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

OWN_TENANT: Final = "headroom"
OWN_ENDPOINTS: Final = f"{OWN_TENANT}:"  # prefix of the names of this installation's own endpoints
SHARDS = 64
ALL = "hr:{all}"
EVERY_SHARD: Final = "hr:{*}"  # a pattern for SCAN
EVERYONES_SHARD = -1  # holds the records of global limits, in addition to the real shards; in a cluster their plans too
EVERYONES_TENANT = 0
EVERYONE: Final = "*"  # the tenant of those plans; no other can have this name


def base36(number: int, width: int = 1) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text.rjust(width, "0")


def tenant_number(number: int) -> str:
    return base36(number, 5)


def endpoint_number(number: int) -> str:
    return base36(number, 3)


def shard_of(tenant: str, shards: int = SHARDS) -> int:
    return crc32(tenant.encode()) % shards


def shard_prefix(shard: int) -> str:
    """The prefix of every key of a shard, and the key of its token."""
    return ALL if shard == EVERYONES_SHARD else f"hr:{{{shard}}}"


def tenant_prefix(tenant: str, shards: int = SHARDS) -> str:
    return ALL if tenant == EVERYONE else shard_prefix(shard_of(tenant, shards))


def tenants(shard: int) -> str:
    return f"{shard_prefix(shard)}:t"


def config(shard: int) -> str:
    return f"{shard_prefix(shard)}:c"


def bypass(shard: int) -> str:
    return f"{shard_prefix(shard)}:b"


def registered(shard: int) -> str:
    return f"{shard_prefix(shard)}:k"


def credentials(shard: int) -> str:
    """Hash of a credential's secret → its owner. Sharded by that hash, not by tenant."""
    return f"{shard_prefix(shard)}:i"


def directory() -> str:
    return f"{ALL}:d"


def usage(shard: int) -> str:
    return f"{shard_prefix(shard)}:u"


def usage_batch(shard: int) -> str:
    return f"{shard_prefix(shard)}:ub"


def usage_ends(shard: int) -> str:
    return f"{shard_prefix(shard)}:ue"


def arrivals(shard: int) -> str:
    return f"{shard_prefix(shard)}:a"


def arrivals_batch(shard: int) -> str:
    return f"{shard_prefix(shard)}:ab"


def denials(shard: int, number: str) -> str:
    return f"{shard_prefix(shard)}:d:{number}"


def factors(shard: int) -> str:
    """The factors of the limits that adapt. lua/scaled_bucket.lua has the form of the text."""
    return f"{shard_prefix(shard)}:f"


def loops() -> str:
    """Hash: endpoint → the loops that compute its factors, as hr_observe reads them."""
    return f"{ALL}:l"


def loop_states() -> str:
    """Hash: loop → its state, which hr_observe keeps."""
    return f"{ALL}:w"


def enforcers() -> str:
    return f"{ALL}:e"


def enforcer_info() -> str:
    return f"{ALL}:i"


def key_uses() -> str:
    """Hash: `<key id> <hours since 1970>` → requests since the last drain."""
    return f"{ALL}:ku"


def key_uses_batch() -> str:
    return f"{ALL}:kb"


def observed_batch() -> str:
    """The number of observations and the id of their batch. hr_drain treats `hr:{all}` like a shard."""
    return f"{ALL}:ub"


def observations_batch() -> str:
    return f"{ALL}:ab"


def subject_spellings(value: str) -> frozenset[str]:
    """How a value may stand in records' keys, whatever its dimension is. Must match keys.value in lua/keys.lua."""
    if _PLAIN.fullmatch(value):
        return frozenset({value})
    return frozenset({f"#{sha1(value.encode()).hexdigest()}", *_network(value)})  # noqa: S324 - a name, not a signature


def _network(value: str) -> tuple[str, ...]:
    """The /64 of an IPv6 address, or the IPv4 address mapped to it."""
    try:
        address = IPv6Address(value.partition("%")[0])
    except ValueError:
        return ()
    return (str(address.ipv4_mapped) if address.ipv4_mapped else f"~{address.packed[:8].hex()}",)


def sampled_subject(record_key: bytes) -> str:
    """What stands for the subject of a record in sampled arrivals. Must match account.arrival in lua/account.lua."""
    return sha1(record_key).hexdigest()[:16]  # noqa: S324 - a name, not a signature


class RecordPlace(NamedTuple):
    """A record's key without its shard's prefix: `:<tenant or g>[:<scope>][/<subject>]`."""

    tenant: int
    scope: str  # empty for `*`
    subject: str  # with its definition; empty for the tenant as a whole

    @classmethod
    def parse(cls, text: str) -> RecordPlace:
        place, slash, subject = text.partition("/")
        owner, _, scope = place.removeprefix(":").partition(":")
        return cls(EVERYONES_TENANT if owner == "g" else int(owner, 36), scope, slash + subject)

    @property
    def values(self) -> str:
        """The values of the subject's dimensions, with commas between them; empty: the tenant, or only a hash."""
        definition, _, rest = self.subject.removeprefix("/").partition(":")
        # With alternatives, a letter says which one it is.
        return (rest.partition(":")[2] if "|" in definition else rest).partition(":")[0]

    def __str__(self) -> str:
        owner = "g" if self.tenant == EVERYONES_TENANT else tenant_number(self.tenant)
        scope = f":{self.scope}" if self.scope else ""
        return f":{owner}{scope}{self.subject}"
