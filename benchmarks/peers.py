"""Headroom side by side with its peers: every one decides and counts a request, against one limit and against four.

Each server runs alone on one core; Valkey and the client share another. Contestants of a comparison take turns. Rates
are requests per second of the server's own processor time, ratios are medians of the ratios within a round. A failed
answer, or one that was decided without the store, ends the benchmark. A peer that cannot be built here is left out
with the reason. The table goes into docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.contestants import builds, http, in_memory, libraries, nginx, rate_limit_service, table
from benchmarks.contestants.builds import LeftOutError
from benchmarks.contestants.servers import Store, store
from benchmarks.contestants.turns import Comparison
from benchmarks.report import BenchmarkRow

COMPARISONS: dict[str, Callable[[Store], Comparison]] = {
    "ShouldRateLimit": rate_limit_service.compare,
    "HTTP": http.compare,
    "nginx": nginx.compare,
    "Python libraries on Redis": libraries.compare,
    "Python libraries in memory": in_memory.compare,
}


def run() -> list[BenchmarkRow]:
    compared: list[Comparison] = []
    left_out = dict(unbuildable())
    with store() as valkey:
        for name, compare in COMPARISONS.items():
            try:
                compared.append(compare(valkey))
            except LeftOutError as error:
                left_out[name] = str(error)
    print("\n" + table.markdown(compared, left_out))
    return list(table.rows(compared))


def unbuildable() -> dict[str, str]:
    """Peers that no registry had with a checksum when this was written, and why they still cannot be built."""
    reasons = {}
    peers = {f"gubernator {builds.GUBERNATOR}": builds.gubernator, "limitador-server": builds.limitador}
    for name, build in peers.items():
        try:
            build()
            reasons[name] = "It builds here now; add it to `benchmarks/contestants/`."
        except LeftOutError as error:
            reasons[name] = str(error)
    return reasons
