"""Stops a change that takes more than a tenth from somebody, unless it is forced.

A suspension is no cut: it is meant to refuse everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice

from quotas.models import Revision
from quotas.policy.problems import Problem
from quotas.services.concerned import Concerned
from quotas.services.earlier import States
from quotas.services.errors import Refused, refuse
from quotas.services.judging import Group, Judgement
from quotas.services.targets import Targets

MOST_CUTS = 100  # that an impact lists
MOST_NAMES = 100
MOST_SAID = 10  # that a refusal lists


@dataclass(frozen=True, slots=True)
class OwnedCut:
    owner: str  # `tier pro` (its plain tenants), `tenant acme`, `everyone`
    endpoint: str
    limit: str
    before: str
    after: str
    percent: float

    def __str__(self) -> str:
        loses = f", a cut of {self.percent:g} %" if self.percent < 100 else ""
        return f"limit {self.limit} on {self.endpoint}: {self.before} → {self.after}{loses}"


@dataclass(frozen=True, slots=True)
class WorstCut:
    endpoint: str
    limit: str
    percent: float  # of whoever loses most


@dataclass(frozen=True, slots=True)
class Impact:
    """Whom a change hurts, and how; `cuts` and `hurt` hold the first of them, the counts all."""

    cuts: tuple[OwnedCut, ...] = ()
    cut_count: int = 0
    worst: tuple[WorstCut, ...] = ()
    hurt: tuple[str, ...] = ()
    hurt_count: int = 0


def revision_impact(revision: Revision) -> Impact:
    """Of the newest revision, against what held before it."""
    targets = Targets.of(revision.touched, revision.before, revision.after)
    return impact_of(Concerned.load(targets, revision.before), revision.before)


def impact_of(concerned: Concerned, before: States) -> Impact:
    judgement = Judgement.of(concerned, before)
    losses = list(judgement.losses())
    every = [OwnedCut(str(group), **asdict(cut)) for group, found in losses for cut in found]
    groups = hurt_groups(group for group, _ in losses)
    names = tuple(islice((name for group in groups for name in judgement.names(group, MOST_NAMES)), MOST_NAMES))
    count = sum(judgement.count(group) for group in groups)
    return Impact(tuple(every[:MOST_CUTS]), len(every), _worst(every), names, count)


def check_cuts(impact: Impact, *, force: bool) -> None:
    if impact.cuts and not force:
        raise Refused(_problems(impact))


def check_accepted(impact: Impact, accepted: Iterable[WorstCut]) -> None:
    """What was forced once is forced as it was then, not as it has become."""
    limits = {(worst.endpoint, worst.limit): worst.percent for worst in accepted}
    grown = [worst for worst in impact.worst if worst.percent > limits.get((worst.endpoint, worst.limit), 0)]
    if grown:
        raise Refused(
            Problem(
                "", "cut", f"limit {worst.limit} on {worst.endpoint} would now lose {worst.percent:g} %; force it again"
            )
            for worst in grown
        )


def check_unnoticed(concerned: Concerned, before: States) -> None:
    """For what stands in shadow: nothing that is denied may depend on it."""
    if not Judgement.of(concerned, before).is_unnoticed():
        message = "a limit of it would replace one that is enforced, which shadow cannot try; use a canary instead"
        raise refuse("mode", "replaces", message)


def hurt_groups(groups: Iterable[Group]) -> list[Group]:
    """Without those that another one holds: who is hurt by a global limit and by one of its own counts once."""
    found = list(groups)
    return [Group()] if Group() in found else sorted(found, key=lambda group: not group.tenant)


def _worst(every: Iterable[OwnedCut]) -> tuple[WorstCut, ...]:
    found: dict[tuple[str, str], float] = {}
    for cut in every:
        key = (cut.endpoint, cut.limit)
        found[key] = max(cut.percent, found.get(key, 0))
    return tuple(WorstCut(*key, percent) for key, percent in sorted(found.items()))


def _problems(impact: Impact) -> list[Problem]:
    said = [Problem(cut.owner, "cut", f"{cut}; make it smaller, or force it") for cut in impact.cuts[:MOST_SAID]]
    if impact.cut_count > len(said):
        rest = f"and {impact.cut_count - len(said):,} more; {impact.hurt_count:,} tenants are hurt in all"
        said.append(Problem("", "cut", rest))
    return said
