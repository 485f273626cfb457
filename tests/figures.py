"""What `make faults` prints: one line a test with the figures it measured, held or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

FIGURES = "figures"


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """`figures("5 rounds, p99 21 ms")`: kept with the test's result, and printed at the end."""

    def tell(text: str) -> None:
        record_property(FIGURES, text)

    return tell


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [
        (report, text)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, text in report.user_properties
        if name == FIGURES
    ]
    if reports:
        terminalreporter.section("figures")
    for report, text in reports:
        terminalreporter.write_line(f"{'held' if report.passed else 'NOT HELD'}  {report.nodeid}  {text}")


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
