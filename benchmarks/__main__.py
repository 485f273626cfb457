"""Runs all benchmarks (`make bench`) or some (`python -m benchmarks sdk memory`). Writes results.json."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

from benchmarks.report import BenchmarkRow, save, show

HELPER_MODULES = {"__main__", "__init__", "global_worker", "isolated_process", "report", "servers"}


def main(wanted: list[str]) -> int:
    known = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in HELPER_MODULES)
    if unknown := sorted(set(wanted) - set(known)):
        print(f"headroom: there is no benchmark {unknown[0]!r}; choose from {', '.join(known)}.", file=sys.stderr)
        return 2
    parts = {name: run_benchmark(name) for name in known if not wanted or name in wanted}
    save(parts)
    rows = [row for part in parts.values() for row in part]
    print(show(rows))
    return 0 if all(row.holds for row in rows) else 1


def run_benchmark(name: str) -> list[BenchmarkRow]:
    print(f"measuring {name} …", end=" ", file=sys.stderr, flush=True)
    start = time.monotonic()
    rows: list[BenchmarkRow] = importlib.import_module(f"benchmarks.{name}").run()
    print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
