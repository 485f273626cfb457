"""Refuses a change that cuts somebody's limit by more than a tenth, or below what they ask for, unless it is forced.

So does one that leaves a limit in place but no longer enforces it: its tenants lose nothing, but what it protects does.
`quotas.changes.impact` finds out whom a change hurts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from headroom_edge.algorithms.base import counted
from quotas.changes.affected import Concerned, Judgement
from quotas.changes.impact import Impact, WorstCut
from quotas.changes.peaks import TenantBelow
from quotas.changes.snapshot import States
from quotas.errors import Refused, refuse
from quotas.policies.problems import Problem
from quotas.policies.spec import EVERYWHERE

MOST_SAID: Final = 10  # that a refusal lists
ANYBODY: Final = "*"


def check_cuts(impact: Impact, *, force: bool) -> None:
    if impact.needs_force and not force:
        raise Refused(_problems(impact))


def check_accepted(impact: Impact, accepted: Iterable[WorstCut]) -> None:
    """Force that was given earlier covers the cuts of that time, and no deeper ones."""
    limits = {(worst.endpoint, worst.limit): worst.percent for worst in accepted}
    grown = [worst for worst in impact.worst if worst.percent > limits.get((worst.endpoint, worst.limit), 0)]
    if grown:
        raise Refused(
            Problem(
                "",
                "cut",
                f"limit {worst.limit} on {worst.endpoint} would now lose {worst.percent:g} %"
                f"{_hit_by(impact, worst)}; force it again",
            )
            for worst in grown
        )


def _hit_by(impact: Impact, worst: WorstCut) -> str:
    owners = [cut.owner for cut in impact.cuts if (cut.endpoint, cut.limit) == (worst.endpoint, worst.limit)]
    return f" ({', '.join(owners[:MOST_SAID])})" if owners else ""


class BelowPeakRefused(Refused):
    """Some tenants would be left less than they asked for, and nobody has accepted that."""

    def __init__(self, message: str, missing: Sequence[TenantBelow], more: int) -> None:
        self.missing, self.more = tuple(missing), more  # those that are listed, and how many are not
        super().__init__([Problem("accept", "below_peak", message)])


def check_below(impact: Impact, accepted: Collection[str], dearer: Collection[str] = ()) -> None:
    """Each tenant that is left less than it asked for must be among those accepted; `*`: all of them are.

    `dearer`: endpoints that the change makes dearer.
    """
    if ANYBODY in accepted:
        return
    missing = [row for row in impact.below if row.tenant not in accepted]
    more = impact.below_count - len(impact.below)
    if not missing and more <= 0:
        return
    said = [
        f"{row.tenant} asked for up to {row.peak:,} in {row.window_s} s on {row.endpoint}, "
        f"of which {row.left:,.0f} would pass"
        for row in missing[:MOST_SAID]
    ]
    if (rest := len(missing) - len(said) + max(more, 0)) > 0:
        said.append(f"and {rest:,} more")
    do = "accept the cut for each of them by name"
    if all(can_keep(row, dearer) for row in missing):
        do += ", or let them keep their limits"
    else:
        do += "; keeping their limits does not help where requests cost more"
    raise BelowPeakRefused(f"{'; '.join(said)}; {do}", missing, max(more, 0))


def can_keep(row: TenantBelow, dearer: Collection[str]) -> bool:
    """Whether an override with its limits as they were leaves the tenant what it has. `dearer`: endpoints."""
    return row.unit != "cost" or not (dearer if row.endpoint == EVERYWHERE else row.endpoint in dearer)


def check_unnoticed(concerned: Concerned, before: States) -> None:
    """A shadow change must not alter an enforced decision."""
    if not Judgement.of(concerned, before).is_unnoticed():
        message = "one of its limits would replace an enforced one, which shadow cannot try; use a canary instead"
        raise refuse("mode", "replaces", message)


def _problems(impact: Impact) -> list[Problem]:
    return [*_lost_problems(impact), *(_cut_problems(impact) if impact.cuts else ())]


def _lost_problems(impact: Impact) -> Iterator[Problem]:
    for lost in impact.unenforced[:MOST_SAID]:
        yield Problem(lost.owner, "cut", f"{lost}; try the change beside the live limit, or apply it anyway (force)")


def _cut_problems(impact: Impact) -> list[Problem]:
    """The first cuts and how many more there are. What to do about them is said once, at the end."""
    lines = [(cut.owner, str(cut)) for cut in impact.cuts[:MOST_SAID]]
    if impact.cut_count > len(lines):
        rest = f"and {impact.cut_count - len(lines):,} more"
        lines.append(("", f"{rest}; {counted(impact.hurt_count, 'tenant', 'tenants')} would lose quota"))
    cut, it = ("cut", "it") if impact.cut_count == 1 else ("cuts", "them")
    lines[-1] = (lines[-1][0], f"{lines[-1][1]}; make the {cut} smaller, or apply {it} anyway (force)")
    return [Problem(owner, "cut", line) for owner, line in lines]
