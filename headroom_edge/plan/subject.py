"""What a limit is counted on.

`tenant` is the tenant as a whole; otherwise dimensions the caller sends: `ip`, `key`, `user+ip` (the
combination), `key|ip` (the key, or the address if no key was sent).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

_DIMENSION = re.compile(r"[a-z][a-z0-9_]{0,31}")
EMPTY = "\0empty"  # sent, and not the same as absent
RESERVED = frozenset({"holder", "all", "tenant"})
MOST_ALTERNATIVES = 4
MOST_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class Subject:
    """Alternatives, each a combination of dimensions; no alternative at all is the tenant itself."""

    alternatives: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Subject":
        if text == "tenant":
            return cls()
        alternatives = tuple(tuple(part.split("+")) for part in text.split("|"))
        for name in (name for alternative in alternatives for name in alternative):
            if not _DIMENSION.fullmatch(name) or name in RESERVED:
                raise ValueError(
                    f"{name!r} cannot be a subject; use tenant, or dimensions such as ip, key, "
                    "user+ip or key|ip (lower case letters, digits and _)"
                )
        _check_shape(alternatives, text)
        return cls(alternatives)

    def chosen(self, values: Mapping[str, str | None]) -> tuple[int, tuple[str, ...]]:
        """The first alternative that was sent whole, by its index, and its values, as the store tells them apart.

        None sent whole: the last one, with empty values for what is absent.
        """
        found: tuple[str, ...] = ()
        for index, names in enumerate(self.alternatives):
            sent = [values.get(name) for name in names]
            found = tuple(_counted(name, value) for name, value in zip(names, sent, strict=True))
            if None not in sent:
                return index, found
        return len(self.alternatives) - 1, found

    def __str__(self) -> str:
        return "|".join("+".join(parts) for parts in self.alternatives) or "tenant"


def _check_shape(alternatives: tuple[tuple[str, ...], ...], text: str) -> None:
    for alternative in alternatives:
        if len(set(alternative)) < len(alternative):
            raise ValueError(f"{'+'.join(alternative)!r} names a dimension twice; name each once")
    if len(set(map(frozenset, alternatives))) < len(alternatives):
        raise ValueError(f"{text!r} has the same alternative twice; remove one")
    if len(alternatives) > MOST_ALTERNATIVES or max(map(len, alternatives)) > MOST_DIMENSIONS:
        raise ValueError(
            f"a subject has at most {MOST_ALTERNATIVES} alternatives of at most {MOST_DIMENSIONS} dimensions"
        )


def _counted(dimension: str, value: str | None) -> str:
    if value is None:
        return ""
    if not value:
        return EMPTY
    return network(value) if dimension == "ip" and ":" in value else value


def network(text: str) -> str:
    """What an IPv6 address is counted by: its /64, or the IPv4 address inside it. Other text stays as it is."""
    try:
        address = IPv6Address(text.partition("%")[0])
    except ValueError:
        return text
    return str(address.ipv4_mapped or IPv6Network((address, 64), strict=False))


TENANT = Subject()
