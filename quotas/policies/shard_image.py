"""What Redis must hold, shard by shard, and the difference between two states of it.

The digest of a shard is the sum of the hashes of its fields and values, so a change updates it without
reading the rest. It excludes the revision: a shard whose content did not change keeps its token.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from headroom_edge.keys import EVERYONES_SHARD

MAIN = "main"
# Not a tenant's name. Its value is over 64 bytes, which makes Redis store the hash as a table from the start.
# Otherwise up to 512 tenants would be a list, which each check searches from its start (3 µs at 150 tenants).
TABLE_FIELD, TABLE_VALUE = "*", f"00000!{'.' * 65}"
_DIGEST_SPAN = 2**64


def canonical(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _weight(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class Delta:
    """What turns a shard with token `base` into one with `token`; None as a value: remove the field.

    Without a base it is the whole shard, whose own mappings it has: use it before the next change.
    """

    base: str
    token: str
    entries: Mapping[str, str | None]
    config: Mapping[str, str | None]

    @property
    def size(self) -> int:
        return len(self.entries) + len(self.config)

    @property
    def length(self) -> int:
        fields = (*self.entries.items(), *self.config.items())
        return sum(len(name) + len(value or "") for name, value in fields)


@dataclass(slots=True)
class ShardImage:
    entries: dict[str, str] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    revision: int = 0
    digest: int = 0
    token: str = ""  # of the last sealed state
    _uses: dict[str, int] = field(default_factory=dict)
    # Since the last sealed state. Of a shard that was never sealed, everything is new, so nothing is listed twice.
    _changed_entries: dict[str, str | None] = field(default_factory=dict)
    _changed_config: dict[str, str | None] = field(default_factory=dict)
    _main: str = ""

    def put_entry(self, name: str, entry: str) -> None:
        before = self.entries.get(name)
        if before == entry:
            return
        if before is not None:
            self._add(-_weight(f"t{name}\0{before}"))
        self._add(_weight(f"t{name}\0{entry}"))
        self.entries[name] = entry
        if self.token:
            self._changed_entries[name] = entry

    def drop_entry(self, name: str) -> None:
        before = self.entries.pop(name, None)
        if before is not None:
            self._add(-_weight(f"t{name}\0{before}"))
            if self.token:
                self._changed_entries[name] = None

    def use(self, fields: Mapping[str, str]) -> None:
        """Counts the users of each field, because tiers and tenants of a shard share fields."""
        for name, value in fields.items():
            users = self._uses.get(name, 0)
            self._uses[name] = users + 1
            if not users:
                self._add(_weight(f"c{name}"))
                self.config[name] = value
                if self.token:
                    self._changed_config[name] = value

    def leave(self, fields: Mapping[str, str]) -> None:
        for name in fields:
            users = self._uses.pop(name) - 1
            if users:
                self._uses[name] = users
                continue
            self._add(-_weight(f"c{name}"))
            del self.config[name]
            if self.token:
                self._changed_config[name] = None

    def seal(self, revision: int, main: str) -> Delta | None:
        """Ends a change. The shard takes the revision only if its content changed."""
        if self.token and main == self._main and not self._changed_entries and not self._changed_config:
            return None
        base = self.token
        self._add(_weight(f"c{MAIN}\0{main}") - (_weight(f"c{MAIN}\0{self._main}") if self._main else 0))
        self._main = main
        self.adopt(revision)
        if not base:
            return Delta(base, self.token, self.entries, self.config)
        self._changed_config[MAIN] = self.config[MAIN]
        delta = Delta(base, self.token, self._changed_entries, self._changed_config)
        self._changed_entries, self._changed_config = {}, {}
        return delta

    def adopt(self, revision: int) -> None:
        """Takes the older revision that Redis already has for the same content."""
        self.revision = revision
        self.token = f"{revision}.{self.digest:016x}"
        self.config[MAIN] = f'{{"revision":{revision},{self._main[1:]}'

    def _add(self, weight: int) -> None:
        self.digest = (self.digest + weight) % _DIGEST_SPAN


@dataclass(slots=True)
class Image:
    revision: int
    shards: list[ShardImage]
    home: ShardImage | None = None  # in a cluster: the plans of global limits, which are counted in one place

    @property
    def numbered(self) -> dict[int, ShardImage]:
        """All of it, by the numbers that headroom_edge.keys understands."""
        found = dict(enumerate(self.shards))
        return found if self.home is None else {**found, EVERYONES_SHARD: self.home}
