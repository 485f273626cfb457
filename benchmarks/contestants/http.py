"""Checks over HTTP, against an application that decides nothing on the same kind of server."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import uvicorn
import uvloop

from benchmarks.contestants.servers import CLIENT_CORE, ENDPOINTS, TENANT, Server, Store, on_core, started
from benchmarks.contestants.turns import Comparison, Contestant, Turn, take_turns
from benchmarks.web.client import CONNECTIONS, LoadResult, as_fast_as_it_goes, request
from tests.headroom_edge.world import ACME, MACHINE
from tests.valkeys import free_port

REQUESTS = 3_200  # per turn
LACKS = "everything: it answers 13 bytes, and shows what the server alone costs"
PATHS = {1: "/v1/rides/7", 4: "/v1/rides"}  # of the endpoints with one limit and with four


def compare(store: Store) -> Comparison:
    environment = {"REDIS_URL": store.url, "HEADROOM_BUDGET_MS": "10000", "HEADROOM_FAIL": "closed"}
    environment["HEADROOM_TRUSTED_PROXIES"] = "127.0.0.1"
    with ExitStack() as stack:
        ports = free_port(), free_port()
        bare = [sys.executable, "-m", "benchmarks.web.apps", "hello", str(ports[0])]
        ours = [sys.executable, "-m", "headroom_edge.gateway", "--port", str(ports[1])]
        hello = stack.enter_context(started(bare, ports[0], environment))
        gateway = stack.enter_context(started(ours, ports[1], environment))
        return take_turns(
            f"HTTP over {CONNECTIONS} connections",
            [
                Contestant(f"bare application, uvicorn {uvicorn.__version__}", {0: turn(hello, check(1))}, LACKS),
                Contestant("Headroom, POST /v1/check", turns(gateway, check, store)),
                Contestant("Headroom, /v1/authz", turns(gateway, authz, store)),
            ],
        )


def turns(server: Server, sent: Callable[[int], bytes], store: Store) -> dict[int, Turn]:
    return {limits: turn(server, sent(limits), store.allowed) for limits in (1, 4)}


def check(limits: int) -> bytes:
    body = f'{{"tenant":"{TENANT}","endpoint":"{ENDPOINTS[limits]}","subject":{{"key":"k_81f"}}}}'
    return request("POST", "/v1/check", body.encode(), authorization=f"Bearer {MACHINE}")


def authz(limits: int) -> bytes:
    fields: dict[str, Any] = {"x_api_key": ACME, "x_original_uri": PATHS[limits], "x_original_method": "GET"}
    return request("GET", "/v1/authz?proxy=nginx", **fields, x_forwarded_for="203.0.113.9")


def turn(server: Server, sent: bytes, counted: Callable[[], int] | None = None) -> Turn:
    async def send() -> LoadResult:
        return await as_fast_as_it_goes(server.port, sent, REQUESTS)

    def measure() -> float:
        with on_core(CLIENT_CORE):
            before, processor_s = counted() if counted else 0, server.processor_s()
            answered = len(uvloop.run(send()).latencies_s)
            processor_s = server.processor_s() - processor_s
            # /v1/check answers 200 to a denied request too; what was decided without the store is not counted there.
            if counted and counted() - before != answered:
                raise SystemExit("headroom: not every request was decided by the store, so the results are invalid.")
        return answered / processor_s

    return measure
