"""One measured value, and the table of all of them."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results.json"


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    name: str
    value: float
    unit: str
    must: float | None = None
    aim: float | None = None
    more_is_better: bool = False

    @property
    def holds(self) -> bool:
        return self._reaches(self.must)

    @property
    def verdict(self) -> str:
        if self.must is None:
            return ""
        if not self.holds:
            return "MISSED"
        return "held, aim reached" if self._reaches(self.aim) else "held"

    def _reaches(self, bound: float | None) -> bool:
        if bound is None:
            return True
        return self.value >= bound if self.more_is_better else self.value <= bound

    def bound(self, bound: float | None) -> str:
        return "" if bound is None else f"{'≥' if self.more_is_better else '≤'} {bound:g}"


def show(rows: list[BenchmarkRow]) -> str:
    width = max(len(row.name) for row in rows)
    lines = [f"{'measured':<{width}}  {'value':>10}      {'must':>8}  {'aim':>8}"]
    for row in rows:
        value = f"{row.value:>10.3g} {row.unit:<4}"
        lines.append(
            f"{row.name:<{width}}  {value} {row.bound(row.must):>8}  {row.bound(row.aim):>8}  {row.verdict}".rstrip()
        )
    return "\n".join(lines)


def save(parts: dict[str, list[BenchmarkRow]]) -> None:
    """Updates the results of these parts in results.json; the others stay as they are."""
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    for name, rows in parts.items():
        before[name] = {"at": now, "machine": machine, "rows": [asdict(row) | {"holds": row.holds} for row in rows]}
    RESULTS.write_text(json.dumps(before, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
