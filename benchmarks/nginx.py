"""nginx: limits in its own Lua, compared with auth_request and the gateway, and with nginx's own limit_req.

nginx and the gateway run on one core; Valkey and the client share another. Contestants take turns; results are medians
over rounds of the ratio within a round. Requests/s are per second of processor time of nginx and the gateway together.
Any refused or degraded answer ends the benchmark: a store that is not asked would look fast.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from benchmarks.contestants.servers import SERVER_CORE, START_SECONDS
from benchmarks.gateway import ROUNDS, on_loop, store, wait_for
from benchmarks.report import BenchmarkRow
from benchmarks.web.client import CONNECTIONS, as_fast_as_it_goes, request
from config.data_folders import ROOT
from tests.headroom_edge.nginx_lua.world import HAS_LUA, LOAD
from tests.headroom_edge.nginx_server import running, write_configuration
from tests.headroom_edge.world import ACME
from tests.valkeys import free_port

REQUESTS = 6_400  # per contestant and round
CLIENT_CORE = 1

# Everybody serves the same small file; only who guards it differs.
CONFIGURATION = """
lua_package_path "{lua}/?.lua;;";
lua_shared_dict headroom 10m;
init_by_lua_block {{
    require("headroom").setup{{ redis = "{store}", budget_ms = 10000, fail = "closed", leases = {leases} }}
}}
map "" $headroom_caller {{ default ""; }}
map "" $headroom_key {{ default ""; }}
limit_req_zone $http_x_api_key zone=one:10m rate=1000000r/s;
limit_req_zone $http_x_api_key zone=two:10m rate=1000000r/s;
limit_req_zone $http_x_api_key zone=three:10m rate=1000000r/s;
limit_req_zone $http_x_api_key zone=four:10m rate=1000000r/s;
keepalive_requests 1000000;
upstream headroom {{ server 127.0.0.1:{gateway}; keepalive 64; }}
server {{
    listen 127.0.0.1:{port};
    default_type text/plain;
    proxy_set_header X-Headroom-Tenant $headroom_caller;
    proxy_set_header X-Headroom-Key $headroom_key;
    location = /limit_req {{ limit_req zone=one burst=100000 nodelay; alias {file}; }}
    location = /limit_req/4 {{
        limit_req zone=one burst=100000 nodelay;
        limit_req zone=two burst=100000 nodelay;
        limit_req zone=three burst=100000 nodelay;
        limit_req zone=four burst=100000 nodelay;
        alias {file};
    }}
    # rides:get and rides:list: in benchmarks/peers.py they have one limit and four.
    location = /lua {{
        set $headroom_endpoint rides:get;
        access_by_lua_block {{ require("headroom").guard() }}
        log_by_lua_block {{ require("headroom").release() }}
        alias {file};
    }}
    location = /lua/4 {{
        set $headroom_endpoint rides:list;
        access_by_lua_block {{ require("headroom").guard() }}
        log_by_lua_block {{ require("headroom").release() }}
        alias {file};
    }}
    location = /auth_request {{
        set $ridden /v1/rides/7;
        auth_request /_headroom;
        auth_request_set $headroom_policy $upstream_http_ratelimit_policy;
        auth_request_set $headroom_left $upstream_http_ratelimit;
        auth_request_set $headroom_degraded $upstream_http_headroom_degraded;
        add_header RateLimit-Policy $headroom_policy always;
        add_header RateLimit $headroom_left always;
        add_header Headroom-Degraded $headroom_degraded always;
        alias {file};
    }}
    location = /auth_request/4 {{
        set $ridden /v1/rides;
        auth_request /_headroom;
        auth_request_set $headroom_policy $upstream_http_ratelimit_policy;
        auth_request_set $headroom_left $upstream_http_ratelimit;
        auth_request_set $headroom_degraded $upstream_http_headroom_degraded;
        add_header RateLimit-Policy $headroom_policy always;
        add_header RateLimit $headroom_left always;
        add_header Headroom-Degraded $headroom_degraded always;
        alias {file};
    }}
    location = /_headroom {{
        internal;
        proxy_pass http://headroom/v1/authz?proxy=nginx;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_pass_request_body off;
        proxy_set_header Content-Length "";
        proxy_pass_request_headers off;
        proxy_set_header X-API-Key $http_x_api_key;
        proxy_set_header X-Original-URI $ridden;
        proxy_set_header X-Original-Method $request_method;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Contestant:
    path: str
    port: int
    processes: tuple[psutil.Process, ...]

    def served_per_s(self) -> float:
        before = self._processor_s()
        sent = request("GET", self.path, x_api_key=ACME)
        measured = on_loop(as_fast_as_it_goes(self.port, sent, REQUESTS))
        return len(measured.latencies_s) / (self._processor_s() - before)

    def _processor_s(self) -> float:
        times = [process.cpu_times() for process in self.processes]
        return float(sum(one.user + one.system for one in times))


def run() -> list[BenchmarkRow]:
    if not HAS_LUA:
        print("nginx with libnginx-mod-http-lua is not installed: left out.", file=sys.stderr)
        return []
    with ExitStack() as stack:
        before = os.sched_getaffinity(0)
        stack.callback(os.sched_setaffinity, 0, before)
        url = stack.enter_context(store(before))
        os.sched_setaffinity(0, {SERVER_CORE} & before or before)  # inherited by what is started now
        gateway_port, gateway = stack.enter_context(gateway_process(url))
        port, worker = stack.enter_context(nginx(url, gateway_port, leases=False))
        leased_port, leased_worker = stack.enter_context(nginx(url, gateway_port, leases=True))
        os.sched_setaffinity(0, {CLIENT_CORE} & before or before)
        contestants = {
            "limit_req": Contestant("/limit_req", port, (worker,)),
            "lua": Contestant("/lua", port, (worker,)),
            "leased": Contestant("/lua", leased_port, (leased_worker,)),
            "auth": Contestant("/auth_request", port, (worker, gateway)),
        }
        return rows(measure(contestants))


def measure(contestants: dict[str, Contestant]) -> dict[str, list[float]]:
    rounds = [{name: one.served_per_s() for name, one in contestants.items()} for _ in range(ROUNDS + 1)]
    # The first round opens connections and fills caches, so it does not count.
    return {name: [one[name] for one in rounds[1:]] for name in contestants}


def rows(rates: dict[str, list[float]]) -> list[BenchmarkRow]:
    def ratio(ours: str, other: str) -> float:
        return median(own / theirs for own, theirs in zip(rates[ours], rates[other], strict=True))

    per_s = f"requests/s of processor time over {CONNECTIONS} connections"
    return [
        BenchmarkRow(
            f"nginx + Lua {per_s}, against auth_request + gateway",
            ratio("lua", "auth"),
            "×",
            2.5,
            4,
            more_is_better=True,
        ),
        BenchmarkRow("nginx + Lua against limit_req", ratio("lua", "limit_req"), "×", 0.2, more_is_better=True),
        BenchmarkRow(
            "nginx + Lua with leases against limit_req",
            ratio("leased", "limit_req"),
            "×",
            0.2,
            0.5,
            more_is_better=True,
        ),
        *(
            BenchmarkRow(f"{name}: {per_s}", median(rates[contestant]), "/s")
            for name, contestant in (
                ("nginx + Lua", "lua"),
                ("nginx + Lua with leases", "leased"),
                ("auth_request + gateway", "auth"),
                ("limit_req (one limit in memory, no accounting, no headers)", "limit_req"),
            )
        ),
    ]


@contextmanager
def nginx(url: str, gateway: int, *, leases: bool) -> Iterator[tuple[int, psutil.Process]]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hr-nginx-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx's workers have a user of their own
        (folder / "file").write_text("Hello, world!")
        about = {"lua": ROOT / "deploy" / "nginx", "store": url, "gateway": gateway, "file": folder / "file"}
        included = CONFIGURATION.format(port=port, leases=str(leases).lower(), **about)
        write_configuration(folder, included, modules=LOAD)
        with running(folder, port) as process:
            yield port, worker_of(psutil.Process(process.pid))


def worker_of(master: psutil.Process) -> psutil.Process:
    """The master listens before it has started the worker."""
    deadline = time.monotonic() + START_SECONDS
    while not (workers := master.children()):
        if time.monotonic() > deadline:
            raise SystemExit("headroom: nginx started no worker; see its output above.")
        time.sleep(0.01)
    return workers[0]


@contextmanager
def gateway_process(url: str) -> Iterator[tuple[int, psutil.Process]]:
    port = free_port()
    settings = {"REDIS_URL": url, "HEADROOM_BUDGET_MS": "10000", "HEADROOM_FAIL": "closed"}
    environment = {**os.environ, **settings, "HEADROOM_TRUSTED_PROXIES": "127.0.0.1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "headroom_edge.gateway", "--port", str(port)], env=environment, cwd=ROOT
    )
    try:
        wait_for(port, process)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    from benchmarks.report import show

    print(show(run()))
