"""Results of simulations as text and JSON, for the simulate command."""

import json
from collections.abc import Iterable, Iterator, Sequence

from headroom_edge.algorithms.base import ceil_div
from quotas.simulation.replay import ReplayedArrival, ReplayTotals
from quotas.simulation.sandbox import Sandbox, StoreEngine
from quotas.simulation.scenarios import SCENARIOS
from quotas.simulation.scenarios.engine import ReferenceEngine
from quotas.simulation.scenarios.model import CaseResult, ScenarioCase, run_case
from quotas.simulation.sliding_accuracy import AccuracyTally, measure_accuracy

ACCURACY = 14
ACCURACY_TITLE = "How often the sliding counter decides differently from the exact log"


def decisions_json(decisions: Iterable[ReplayedArrival], each: bool) -> str:
    found, bits = ReplayTotals(), list[int]()
    for decided in decisions:
        found.add(decided)
        if each:
            bits.append(int(decided.allowed))
    answer: dict[str, object] = {
        "allowed": found.allowed,
        "denied": found.denied,
        "max_wait_ms": ceil_div(found.max_wait_us, 1_000),
    }
    return json.dumps(answer | {"decisions": bits} if each else answer)


def scenario_list() -> Iterator[str]:
    rows = [(one.number, one.title, str(len(one.cases))) for one in SCENARIOS.values()]
    rows.append((ACCURACY, ACCURACY_TITLE, "1"))
    return table(("scenario", "title", "cases"), [(str(number), *rest) for number, *rest in sorted(rows)])


def scenario_table(numbers: Sequence[int], engine: str) -> Iterator[str]:
    for number in numbers:
        scenario = SCENARIOS[number]
        yield f"{number}. {scenario.title}. {scenario.lesson}"
        results = [(case, _run(case, engine)) for case in scenario.cases]
        rows = [
            (case.name, str(result.accepted), str(result.denied), "; ".join(result.mismatches) or "as expected")
            for case, result in results
        ]
        yield from table(("case", "accepted", "denied", "result"), rows)
        yield ""


def _run(case: ScenarioCase, engine: str) -> CaseResult:
    if engine == "reference":
        return run_case(case, ReferenceEngine())
    with Sandbox() as sandbox:
        return run_case(case, StoreEngine(sandbox))


def accuracy_table(requests: int) -> Iterator[str]:
    found = measure_accuracy(requests)
    yield f"14. {ACCURACY_TITLE}"
    rows = [
        (name, f"{tally.requests:,}", *(f"{n:,}" for n in (tally.wrongly_denied, tally.wrongly_allowed)), _share(tally))
        for name, tally in (*found.by_load.items(), *sorted(found.by_pattern.items()), ("all", found.total))
    ]
    yield from table(("clients", "requests", "wrongly denied", "wrongly allowed", "wrong"), rows)
    yield ""


def _share(tally: AccuracyTally) -> str:
    return f"{tally.wrong_share:.4%}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
