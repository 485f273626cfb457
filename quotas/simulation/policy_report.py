"""What became of arrivals under policies, for the simulate command: the engines side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headroom_edge.algorithms.base import ceil_div, counted
from headroom_edge.algorithms.sharing import Borrowing
from quotas.policies.spec import Limit
from quotas.simulation.policy_replay import PolicyWorld, ReplayStep
from quotas.simulation.reference_plan import RecordKey
from quotas.simulation.replay import ReplayedArrival, ReplayTotals
from quotas.simulation.report import table
from quotas.simulation.worst_window import WorstWindow, bound_of

MOST_VALUES = 20  # of a dimension that are listed
MOST_DIFFERENCES = 5
ASKED = "asked"


@dataclass(slots=True)
class EngineTally:
    """What one engine decided, by value of each dimension, and the busiest windows of each record."""

    shares: bool  # whether a limit borrows
    totals: ReplayTotals = field(default_factory=ReplayTotals)
    by_value: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)  # dimension → value → outcome → requests
    windows: dict[tuple[str, RecordKey], WorstWindow] = field(default_factory=dict)

    def add(self, step: ReplayStep, decided: ReplayedArrival) -> None:
        self.totals.add(decided)
        outcome = self._outcome(decided)
        subject = step.arrival.subject if step.arrival else ""
        pairs = {"subject": subject} if subject else step.request.subject
        for dimension, value in (("tenant", step.request.tenant), *pairs.items()):
            counts = self.by_value.setdefault(dimension, {}).setdefault(value or "", Counter())
            counts[ASKED] += 1
            counts[outcome] += 1
        if decided.allowed:
            self._see_windows(step)

    def _outcome(self, decided: ReplayedArrival) -> str:
        if decided.allowed:
            return f"from {decided.lender}" if decided.lender else "own" if self.shares else "allowed"
        return f"denied: {decided.cause or decided.limit}"

    def _see_windows(self, step: ReplayStep) -> None:
        for group in step.plan.groups:
            key = group.key(step.request.tenant, step.request.subject)
            for member in group.members:
                bound = bound_of(member.algorithm) if member.role == "enforce" and not member.is_replaced else None
                if bound is None:
                    continue
                window = self.windows.get((member.identity.name, key))
                if window is None:
                    window = self.windows[member.identity.name, key] = WorstWindow(bound)
                window.add(step.at_us, 1 if member.counts_requests else step.request.cost)

    def worst(self) -> dict[str, tuple[RecordKey, WorstWindow]]:
        """The record of each limit that came closest to its bound."""
        found: dict[str, tuple[RecordKey, WorstWindow]] = {}
        for (name, key), window in self.windows.items():
            if name not in found or window.excess > found[name][1].excess:
                found[name] = (key, window)
        return found


@dataclass(slots=True)
class Comparison:
    """The tallies of the engines that ran, by name, and where they differ."""

    tallies: dict[str, EngineTally]
    requests: int = 0
    differences: int = 0
    first: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, world: PolicyWorld, engines: Sequence[str]) -> Comparison:
        shares = any(isinstance(limit.algorithm, Borrowing) for limit in world.limits)
        return cls({engine: EngineTally(shares) for engine in engines})

    def add(self, step: ReplayStep, decisions: Sequence[ReplayedArrival]) -> None:
        """One decision of each engine, in their order."""
        self.requests += 1
        for tally, decided in zip(self.tallies.values(), decisions, strict=True):
            tally.add(step, decided)
        if any(decided != decisions[0] for decided in decisions):
            self.differences += 1
            if len(self.first) < MOST_DIFFERENCES:
                said = ", ".join(f"{e} {_words(d)}" for e, d in zip(self.tallies, decisions, strict=True))
                self.first.append(f"request {self.requests:,} (t_us {step.at_us}): {said}")


def _words(decided: ReplayedArrival) -> str:
    if not decided.allowed:
        return f"denied by {decided.limit}{f' ({decided.cause})' if decided.cause else ''}"
    lent = f", lent by {decided.lender}" if decided.lender else ""
    return f"allowed{lent}{f' after {decided.wait_us} us' if decided.wait_us else ''}"


def comparison_tables(world: PolicyWorld, found: Comparison) -> Iterator[str]:
    yield from _limits_table(world.limits, found)
    for dimension in _dimensions(found):
        yield ""
        yield from _values_table(dimension, found)
    if any(tally.windows for tally in found.tallies.values()):
        yield ""
        yield from _windows_table(found)
    yield ""
    yield from _verdict(found)


def _limits_table(limits: Sequence[Limit], found: Comparison) -> Iterator[str]:
    denied = [tally.totals.denied_by for tally in found.tallies.values()]
    rows = [
        (limit.name, limit.mode, limit.algorithm.words(), *(f"{counts[limit.name]:,}" for counts in denied))
        for limit in limits
    ]
    yield from table(("limit", "mode", "what it buys", *_heads("denied", found)), rows)


def _heads(what: str, found: Comparison) -> list[str]:
    return [what] if len(found.tallies) == 1 else [f"{what} ({engine})" for engine in found.tallies]


def _dimensions(found: Comparison) -> list[str]:
    """Those with several values, and those that people named in the file."""
    tallies = next(iter(found.tallies.values())).by_value
    return [name for name, values in tallies.items() if name != "tenant" or len(values) > 1]


def _values_table(dimension: str, found: Comparison) -> Iterator[str]:
    sides = [tally.by_value.get(dimension, {}) for tally in found.tallies.values()]
    busiest = sorted(sides[0], key=lambda value: (-sides[0][value][ASKED], value))
    outcomes = _outcomes(sides)
    rows = [
        (value or "(none)", f"{sides[0][value][ASKED]:,}", *(_cell([s[value][o] for s in sides]) for o in outcomes))
        for value in busiest[:MOST_VALUES]
    ]
    yield from table((dimension, ASKED, *outcomes), rows)
    if len(busiest) > MOST_VALUES:
        yield f"… and {counted(len(busiest) - MOST_VALUES, 'other value')}"


def _outcomes(sides: Sequence[Mapping[str, Counter[str]]]) -> list[str]:
    """Own first, then what was lent, then the denials."""
    names = {name for side in sides for counts in side.values() for name in counts} - {ASKED}
    return sorted(names, key=lambda name: (name.startswith("denied"), name.startswith("from"), name))


def _cell(counts: Sequence[int]) -> str:
    return f"{counts[0]:,}" if len(set(counts)) == 1 else " / ".join(f"{count:,}" for count in counts)


def _windows_table(found: Comparison) -> Iterator[str]:
    rows = []
    for engine, tally in found.tallies.items():
        for name, (key, window) in sorted(tally.worst().items()):
            subject = "+".join(value for value in key[4] if value) or key[0] or "everybody"
            inside = f"{window.units:,} in {window.span_s:,.6g} s"
            verdict = f"EXCEEDED by {window.excess:,.6g}" if window.is_exceeded else "kept"
            rows.append((name, engine, subject, inside, f"{window.allowed:,.6g}", verdict))
    yield from table(("worst window", "engine", "of", "units", "rate × t + burst", ""), sorted(rows))


def _verdict(found: Comparison) -> Iterator[str]:
    for engine, tally in found.tallies.items():
        totals = tally.totals
        wait_ms = ceil_div(totals.max_wait_us, 1_000)
        name = "" if len(found.tallies) == 1 or not found.differences else f"{engine}: "
        yield f"{name}{totals.allowed:,} allowed, {totals.denied:,} denied, longest wait {wait_ms:,} ms"
        if not found.differences:
            break
    if len(found.tallies) > 1 and not found.differences:
        yield f"{' and '.join(found.tallies)} agree on {counted(found.requests, 'decision')}."
    yield from found.first


def reference_only(steps: Iterable[ReplayStep]) -> Iterator[tuple[ReplayStep, Sequence[ReplayedArrival]]]:
    return ((step, (step.decided,)) for step in steps if step.decided)


def side_by_side(
    pairs: Iterable[tuple[ReplayStep, ReplayedArrival]],
) -> Iterator[tuple[ReplayStep, Sequence[ReplayedArrival]]]:
    return ((step, (step.decided, stored)) for step, stored in pairs if step.decided)
