"""The table of shares, as it is posted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict

from dashboards.conflicts import WatchedForm
from dashboards.forms import ReasonedForm, amount_typed, number_of
from dashboards.pages.pools.demand import Demand
from dashboards.pages.pools.figures import row_key
from dashboards.templatetags.numbers import unlocalized
from headroom_edge.algorithms.sharing import Borrowing
from quotas.changes.snapshot import POLICY, key_of
from quotas.models import Revision
from quotas.pools.amounts import KEEP, Units, amounts_of
from quotas.pools.demand import demand_numbered
from quotas.pools.members import shares_now
from quotas.pools.queries import PoolRow, pool_read
from quotas.pools.shares import (
    MOST_SHARES,
    WantedShare,
)
from quotas.pools.use import ShareKey


class SharesForm(ReasonedForm, WatchedForm):
    """The rows that can be edited: `k-3` says whose row 3 is, `was-g-3` what it showed, `g-3` what it has now."""

    force = forms.BooleanField(required=False)

    def __init__(self, posted: QueryDict) -> None:
        self.rows = {index: key for index, key in _rows(posted) if f"g-{index}" in posted}
        watched = [f"{name}-{index}" for index in self.rows for name in ("g", "c")]
        seen = {name: posted.get(f"was-{name}", "") for name in watched}
        super().__init__({**posted.dict(), "seen": json.dumps(seen)})
        self.watched = tuple(watched)
        self.policies: set[str] = set()
        for index, whose in _names(self.rows).items():
            self.fields[f"g-{index}"] = forms.CharField(required=False, label=f"the share of {whose}")
            self.fields[f"c-{index}"] = forms.CharField(required=False, label=f"the ceiling of {whose}")

    def saved(self, pool: PoolRow) -> dict[str, str]:
        """The shares as they are now."""
        tenants = {key.partition("|")[0] for key in self.rows.values()} - {""}
        present = {row_key(pool, share): share for share in shares_now(pool, tenants)}
        self.policies = {pool.policy, *(share.policy for share in present.values())}
        found: dict[str, str] = {}
        for index, key in self.rows.items():
            share = present.get(key)
            assured, ceiling = (share.assured(pool.algorithm), share.ceiling(pool.algorithm)) if share else (None, None)
            found |= {f"g-{index}": _shown(assured), f"c-{index}": _shown(ceiling)}
        return found

    def saved_now(self, policy: str, limit: str) -> dict[str, str] | None:
        """None: the pool is gone."""
        pool = pool_read(policy, limit)
        return None if pool is None else self.saved(pool)

    def revisions(self) -> QuerySet[Revision]:
        """Since the page was read. A policy that was removed with its share is not known any more."""
        since = number_of(self.data.get("at", "")) or 0
        return Revision.objects.filter(number__gt=since, touched__overlap=[key_of(POLICY, p) for p in self.policies])

    @property
    def theirs(self) -> dict[str, str]:
        """After a conflict: what the rows have to show as saved."""
        return json.loads(self.data["seen"]) if self.conflict else {}


def _names(rows: Mapping[int, str]) -> dict[int, str]:
    """Whose share each row is: the tenant or the limit, with the place if one has several."""
    parts = {index: (key.partition("|")[0] or key.rpartition("|")[2], key.split("|")[1]) for index, key in rows.items()}
    names = [name for name, _ in parts.values()]
    return {index: f"{name} on {scope}" if names.count(name) > 1 else name for index, (name, scope) in parts.items()}


def _shown(value: Fraction | None) -> str:
    return unlocalized(None if value is None else float(value))


def shares_of(pool: PoolRow, posted: QueryDict) -> list[WantedShare] | str:
    """The rows of the table that were changed; a sentence if one cannot be read."""
    found, proposed = [], _proposed(pool, posted)
    for index, key in _rows(posted):
        tenant, _, rest = key.partition("|")
        scope, _, limit = rest.rpartition("|")
        share = WantedShare(tenant, limit, scope)
        proposal = proposed.get((tenant, scope, limit))
        assured, ceiling = _changed(posted, "g", index), _changed(posted, "c", index)
        if posted.get(f"r-{index}"):
            found.append(replace(share, is_removed=True))
        elif "" in (assured, ceiling):
            return f"Enter numbers such as 20 or 4.2 for {tenant or limit}."
        elif (assured, ceiling) == (KEEP, KEEP):
            continue
        elif proposal and _is_left(pool, posted, index, proposal):
            found.append(replace(share, exactly=proposal))
        else:
            found.append(replace(share, assured=assured, ceiling=ceiling))  # type: ignore[arg-type]
    return found


def _proposed(pool: PoolRow, posted: QueryDict) -> Mapping[ShareKey, Borrowing]:
    """The proposal that filled in the table; empty: none did."""
    number = number_of(posted.get("demand", ""))
    return Demand(demand_numbered(pool, number)).proposed if number is not None else {}


def _is_left(pool: PoolRow, posted: QueryDict, index: int, proposal: Borrowing) -> bool:
    """Whether the row has what was filled in."""
    amounts = amounts_of(pool.algorithm, proposal)
    typed = [posted.get(f"{name}-{index}", "").strip() for name in ("g", "c")]
    return typed == [_shown(amounts.assured), _shown(amounts.ceiling)]


def _rows(posted: QueryDict) -> Iterator[tuple[int, str]]:
    for index in range(2 * MOST_SHARES):
        key = posted.get(f"k-{index}")
        if key is not None and key.count("|") >= 2:
            yield index, key


def _changed(posted: QueryDict, name: str, index: int) -> Units | str | None:
    """KEEP: as it was. None: no ceiling. Empty: it cannot be read."""
    if f"{name}-{index}" not in posted:
        return KEEP  # a row that cannot be edited
    typed, was = posted.get(f"{name}-{index}", "").strip(), posted.get(f"was-{name}-{index}", "").strip()
    if typed == was:
        return KEEP
    if not typed and name == "c":
        return None
    number = amount_typed(typed)
    return "" if number is None or isinstance(number, str) else Fraction(repr(number))
