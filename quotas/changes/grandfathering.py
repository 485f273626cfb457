"""Keeps the limits of tenants that a change would cut, by overrides in the same revision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from quotas.changes.affected import Concerned, Group, Judgement, Period, Targets
from quotas.changes.peaks import below_peaks
from quotas.changes.snapshot import Draft, snapshots
from quotas.errors import refuse
from quotas.lookups import find_endpoint, find_tenant
from quotas.models import Override
from quotas.overrides import add_override
from quotas.policies.compare import TOLERATED, cuts
from quotas.policies.limit_codec import limit_fields
from quotas.policies.spec import EPOCH, EVERYWHERE, MICROSECOND

ALL_HURT = "*"
MOST_SPARED = 1_000

Patches = dict[str, dict[str, Any]]  # limit → its former fields


@dataclass(frozen=True, slots=True)
class _Stay:
    """The override that keeps an endpoint's limits unchanged for a period."""

    endpoint: str
    start_us: int
    end_us: int | None
    patches: Patches


def spare(opened: Draft, names: Sequence[str], until: datetime | None = None) -> None:
    """Adds overrides for the named tenants (`*`: for all) whom the draft hurts so far. `until` None: without end."""
    if not names:
        return
    after = snapshots(opened.before)
    touched = [key for key, state in opened.before.items() if after[key] != state]
    concerned = Concerned.load(Targets.of(touched, opened.before, after), opened.before)
    judgement = Judgement.of(concerned, {key: opened.before[key] for key in touched})
    for name, stays in _spared(judgement, names):
        for stay in stays:
            _override(opened, name, stay, until)


def _spared(judgement: Judgement, names: Sequence[str]) -> list[tuple[str, list[_Stay]]]:
    found: list[tuple[str, list[_Stay]]] = []
    large = [group for group, _ in judgement.losses() if group != Group()]
    for group in large:
        hurt = judgement.names(group, MOST_SPARED + 1, None if ALL_HURT in names else names)
        found += _with_stays(judgement, group, hurt, TOLERATED)
    for peak in below_peaks(judgement):
        if peak.group not in large:  # a small cut hurts those who ask for so much
            hurt = [name for name in peak.names if ALL_HURT in names or name in names]
            found += _with_stays(judgement, peak.group, hurt, Fraction(0))
    if len(found) > MOST_SPARED:
        message = f"more than {MOST_SPARED:,} tenants would be left as they are; make them a tier of their own instead"
        raise refuse("grandfather", "too_many", message)
    return found


def _with_stays(
    judgement: Judgement, group: Group, names: Sequence[str], above: Fraction
) -> list[tuple[str, list[_Stay]]]:
    stays = _joined(stay for period in judgement.periods(group) for stay in _stays(period, above))
    return [(name, stays) for name in names] if stays else []


def _stays(period: Period, above: Fraction) -> Iterator[_Stay]:
    patches: dict[str, Patches] = {}
    for cut in cuts(period.before, period.after, above):
        was = {effective.limit.name: effective.limit for effective in period.before.at(cut.endpoint)}
        now = {effective.limit.name: effective.limit for effective in period.after.at(cut.endpoint)}
        fields = limit_fields(was[cut.limit]) if cut.limit in was else {"mode": "off"}
        # The cut comes from a higher cost of the request if the limit is the same; no override can undo that.
        if fields != limit_fields(now[cut.limit]):
            patches.setdefault(cut.endpoint, {})[cut.limit] = fields
    for endpoint, of_endpoint in patches.items():
        yield _Stay(endpoint, period.start_us, period.end_us, of_endpoint)


def _joined(stays: Iterator[_Stay]) -> list[_Stay]:
    """Merges periods that follow each other with the same patches."""
    found: list[_Stay] = []
    for stay in sorted(stays, key=lambda stay: (stay.endpoint, stay.start_us)):
        last = found[-1] if found else None
        if last and (last.endpoint, last.end_us, last.patches) == (stay.endpoint, stay.start_us, stay.patches):
            found[-1] = _Stay(last.endpoint, last.start_us, stay.end_us, last.patches)
        else:
            found.append(stay)
    return found


def _override(opened: Draft, name: str, stay: _Stay, until: datetime | None) -> None:
    ends = [end for end in (until, None if stay.end_us is None else _moment(stay.end_us)) if end is not None]
    start = _moment(stay.start_us)
    if ends and min(ends) <= start:
        return
    row = Override(
        tenant=find_tenant(name),
        endpoint=None if stay.endpoint == EVERYWHERE else find_endpoint(stay.endpoint),
        start=start,
        end=min(ends, default=None),
        limits=dict[str, Mapping[str, Any]](stay.patches),
        reason=opened.reason,
        author=opened.author,
    )
    add_override(opened, row)


def _moment(us: int) -> datetime:
    return EPOCH + us * MICROSECOND
