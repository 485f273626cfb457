"""One check: its arguments, and how they are encoded for the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeAlias

import hiredis

from headroom_edge.keys import tenant_prefix
from headroom_edge.plan.priority import PRIORITIES
from headroom_edge.plan.subject import DIMENSION, RESERVED
from headroom_edge.results import Result

TENANT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
NOBODY: Final = "-"  # for a request that names no tenant: none can have this name, so the store takes it as unknown
COST_MAX: Final = 1_000_000_000
DIMENSIONS_MAX: Final = 31  # the store accepts 32 pairs, of which the holder takes one, and one more for a priority
ENDPOINT_CHARACTERS: Final = 200
DEFAULT_COST: Final = "*"  # the endpoint's default cost
PAID: Final = ("GLOBAL", "paid")  # no dimension has capital letters

SubjectValues: TypeAlias = Mapping[str, str | None]  # None: not known for this request

# hiredis's type stubs allow one word only.
_pack: Callable[[Any], bytes] = hiredis.pack_command
prefix_of = lru_cache(maxsize=65_536)(tenant_prefix)


# Treat as immutable. It is not frozen because that would add 1 µs to every check.
@dataclass(slots=True)
class Check:
    """The arguments of a check. Raises ValueError for an invalid one, before anything is sent."""

    tenant: str
    endpoint: str
    subject: SubjectValues = field(default_factory=dict)
    cost: int | None = None  # None: the endpoint's default cost
    holder: str = ""  # the caller's id for this request, used by concurrency limits
    priority: str = ""  # how important the caller takes it for, which can only lower it; empty: as configured

    # In a cluster: global limits, which are counted elsewhere, have allowed the request.
    is_paid: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.tenant, str) or not (TENANT.fullmatch(self.tenant) or self.tenant == NOBODY):
            raise ValueError(f"tenant {self.tenant!r} must be 1 to 63 lower case letters, digits and hyphens.")
        if not isinstance(self.endpoint, str) or not 0 < len(self.endpoint) <= ENDPOINT_CHARACTERS:
            raise ValueError(f"endpoint must be a name of 1 to {ENDPOINT_CHARACTERS} characters.")
        cost = self.cost
        if cost is not None and (type(cost) is not int or not 1 <= cost <= COST_MAX):
            raise ValueError(
                f"cost must be a whole number from 1 to {COST_MAX:,}, not {cost!r}; omit it for the endpoint's default."
            )
        if self.priority and self.priority not in PRIORITIES:
            raise ValueError(f"priority must be one of {', '.join(PRIORITIES)}, not {self.priority!r}.")
        if len(self.subject) > DIMENSIONS_MAX:
            raise ValueError(f"subject must have at most {DIMENSIONS_MAX} dimensions.")
        for dimension, value in self.subject.items():
            if not is_dimension(dimension):
                raise ValueError(f"{dimension!r} is not a valid dimension; use names such as ip, key or user.")
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{dimension} in the subject must be text, not {type(value).__name__}.")


@lru_cache(maxsize=1_024)
def is_dimension(name: object) -> bool:
    return isinstance(name, str) and DIMENSION.fullmatch(name) is not None and name not in RESERVED


def encode_check(function: str, check: Check, shards: int, *, rows: bool) -> bytes:
    tenant, cost = check.tenant, check.cost
    words: list[str | bytes] = ["FCALL", function, "1", prefix_of(tenant, shards), tenant, check.endpoint]
    words.append(DEFAULT_COST if cost is None else str(cost))
    if rows:
        words.append("ALL")
    for dimension, value in check.subject.items():
        if value is not None:
            words += (dimension, value)
    if check.holder:
        words += ("holder", check.holder)
    if check.priority:
        words += ("priority", check.priority)
    if check.is_paid:
        words += PAID
    return pack(words)


def encode_call(function: str, check: Check, shards: int, *arguments: str | bytes) -> bytes:
    """Encode a call of another function for the check's tenant, endpoint and subject."""
    about = ("FCALL", function, "1", prefix_of(check.tenant, shards), check.tenant, check.endpoint, *arguments)
    subject = [word for pair in check.subject.items() if pair[1] is not None for word in pair]
    return pack((*about, *subject))  # type: ignore[arg-type] # values that are None were filtered out


def encode_release(check: Check, shards: int, holder: str, result: Result) -> bytes:
    """Without a word if nothing is to be learned, which every version of the library understands."""
    words = () if result == "ignore" else (result,)
    return encode_call("hr_release", check, shards, holder, *words)


def encode_profile(tenant: str, endpoint: str, shards: int) -> bytes:
    """Encode a call for the plan of a tenant and endpoint, as JSON."""
    return pack(("FCALL_RO", "hr_profile", "1", prefix_of(tenant, shards), tenant, endpoint))


def pack(words: Iterable[str | bytes]) -> bytes:
    try:
        return _pack(tuple(words))
    except UnicodeEncodeError:
        # Subjects come from the internet and may hold half a surrogate pair.
        return _pack(tuple(_bytes(word) for word in words))


def _bytes(word: str | bytes) -> bytes:
    return word if isinstance(word, bytes) else word.encode("utf-8", "surrogatepass")
