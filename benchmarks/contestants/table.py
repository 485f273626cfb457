"""The comparisons as one table in Markdown, as docs/performance.md shows it, and as rows of the benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.contestants.turns import Comparison, Contestant
from benchmarks.report import BenchmarkRow

HEAD = ("| requests/s of processor time | one limit | four limits | does not do |", "| --- | --- | --- | --- |")


def markdown(comparisons: Sequence[Comparison], left_out: Mapping[str, str]) -> str:
    lines = [*HEAD]
    for comparison in comparisons:
        lines.append(f"| **{comparison.title}** | | | |")
        for contestant in comparison.contestants:
            cells = (
                contestant.name,
                cell(comparison, contestant, 1),
                cell(comparison, contestant, 4),
                contestant.lacks,
            )
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- Left out: {name}. {reason}" for name, reason in left_out.items())]
    return "\n".join(lines)


def cell(comparison: Comparison, contestant: Contestant, limits: int) -> str:
    if limits not in contestant.turns:
        return f"{comparison.rate(contestant, 0):,.0f} (no limit)" if 0 in contestant.turns and limits == 1 else ""
    rate, ratio = f"{comparison.rate(contestant, limits):,.0f}", comparison.ratio(contestant, limits)
    return rate if ratio is None else f"{rate} ({ratio:.2f}×)"


def rows(comparisons: Sequence[Comparison]) -> Iterator[BenchmarkRow]:
    for comparison in comparisons:
        for contestant in comparison.contestants:
            for limits in contestant.turns:
                name = f"{comparison.title}: {contestant.name}, limits: {limits}"
                yield BenchmarkRow(name, comparison.rate(contestant, limits), "/s")
                ratio = comparison.ratio(contestant, limits)
                if ratio is not None:
                    yield BenchmarkRow(f"{name}, against {comparison.contestants[0].name}", ratio, "×")
