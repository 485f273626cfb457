"""Envoy's rate limit service: our own HTTP/2 against grpcio's server, with the same service behind both."""

from __future__ import annotations

from benchmarks.contestants.builds import LeftOutError
from benchmarks.contestants.rate_limit_service import compare_ours
from benchmarks.contestants.servers import store
from benchmarks.report import BenchmarkRow


def run() -> list[BenchmarkRow]:
    with store() as valkey:
        try:
            compared = compare_ours(valkey)
        except LeftOutError as error:
            print(f"left out: {error}")
            return []
    ratio = compared.ratio(compared.contestants[1], 1)
    name = "ShouldRateLimit requests/s of processor time, our own HTTP/2 against grpc.aio with the same handler"
    return [] if ratio is None else [BenchmarkRow(name, ratio, "×", must=2, aim=3, more_is_better=True)]
