"""The subject of a limit: what its requests are counted by.

`tenant` counts the tenant as a whole. Otherwise it names dimensions that the caller sends: `ip`, `key`, `user+ip`
(the combination) or `key|ip` (the key, or the address if no key was sent).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

DIMENSION = re.compile(r"[a-z][a-z0-9_]{0,31}")
EMPTY = "\0empty"  # an empty value that was sent, as opposed to an absent one
RESERVED = frozenset({"holder", "all", "tenant", "priority"})
MOST_ALTERNATIVES = 4
MOST_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class Subject:
    """Alternatives, each a combination of dimensions. Without any, the subject is the tenant."""

    alternatives: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Subject":
        if text == "tenant":
            return cls()
        alternatives = tuple(tuple(part.split("+")) for part in text.split("|"))
        for name in (name for alternative in alternatives for name in alternative):
            if not DIMENSION.fullmatch(name) or name in RESERVED:
                raise ValueError(
                    f"{name!r} is not a valid subject; use tenant, or dimensions such as ip, key, "
                    "user+ip or key|ip (lower case letters, digits and _)"
                )
        _check_shape(alternatives, text)
        return cls(alternatives)

    def chosen(self, values: Mapping[str, str | None]) -> tuple[int, tuple[str, ...]]:
        """Index and values of the first alternative whose dimensions were all sent.

        If there is none: the last alternative, with empty values for absent dimensions. Two requests have the same
        result if and only if the store counts them together.
        """
        counted: tuple[str, ...] = ()
        for index, names in enumerate(self.alternatives):
            sent = [values.get(name) for name in names]
            counted = tuple(_counted(name, value) for name, value in zip(names, sent, strict=True))
            if None not in sent:
                return index, counted
        return len(self.alternatives) - 1, counted

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
    """An IPv6 address's /64, or the IPv4 address mapped to it. Other text is returned unchanged."""
    try:
        address = IPv6Address(text.partition("%")[0])
    except ValueError:
        return text
    return str(address.ipv4_mapped or IPv6Network((address, 64), strict=False))


TENANT = Subject()
