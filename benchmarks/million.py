"""A million tenants against a thousand: seeding, publishing, an edit, a check, the pages, and what they need.

Takes about a quarter of an hour and 4 GB on disk. Each size has servers of its own; checks of both sizes take turns in
one run, pages do not: measure them on a quiet machine.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.isolated_process import run_isolated
from benchmarks.report import BenchmarkRow
from benchmarks.servers import throw_away_valkey
from config.data_folders import ROOT

FEW, MANY = 1_000, 1_000_000
SIZE = "HEADROOM_BENCH_TENANTS"
EDITS = 60
ROUNDS = 30
TURNS = 800
CALLS_A_TURN = 25  # so few that a turn mostly ends before the core goes to another process
PATIENCE_SECONDS = 300.0
BEFORE_SWEEPS_SECONDS = 3.0  # more than the reconciler waits before its first round
SAID: dict[str, Any] = {"author": "bench", "reason": "bench"}
PAGES = {
    "list of tenants": "/tenants",
    "list of tenants, by requests": "/tenants?order=-asked",
    "search for one tenant": "/tenants?q=tenant-0000042",
    "search for what all share": "/tenants?q=fleet",
    "a tenant": "/tenants/tenant-0000042",
    "overview": "/",
}
CALLS = {
    "GET /v1/tenants": "/v1/tenants",
    "GET /v1/tenants?search=": "/v1/tenants?search=tenant-0000042",
}


def run() -> list[BenchmarkRow]:
    # Before and after: a quarter of an hour lies between the two, in which other work on the machine comes and goes.
    first, many, last = (run_size(size) for size in (FEW, MANY, FEW))
    return [*(row for row in many if row.unit != "ms/page"), *against([*first, *last], many)]


def run_size(tenants: int) -> list[BenchmarkRow]:
    os.environ[SIZE] = str(tenants)
    try:
        return run_isolated(__name__)
    finally:
        del os.environ[SIZE]


def against(few: list[BenchmarkRow], many: list[BenchmarkRow]) -> Iterator[BenchmarkRow]:
    """Pages, against the faster of the runs with few tenants. A ratio well below 1 means that the machine was busy."""
    before: dict[str, float] = {}
    for row in few:
        before[row.name] = min(row.value, before.get(row.name, row.value))
    for row in many:
        if row.unit == "ms/page":
            yield BenchmarkRow(f"{row.name} with {MANY:,} tenants", row.value, "ms")
            yield BenchmarkRow(f"{row.name}, against {FEW:,}", round(row.value / before[row.name], 2), "×", 2, 1.5)


def measure() -> list[BenchmarkRow]:
    from django.conf import settings

    from quotas.publishing import store

    tenants = int(os.environ[SIZE])
    empty = database_size()
    found = [measure_seed(tenants)]
    found.append(BenchmarkRow("PostgreSQL, per tenant", round((database_size() - empty) / tenants), "B"))
    client = store.connect(settings.REDIS_URL)
    before = memory(client)
    start = time.perf_counter()
    with publisher() as process:
        took = time.perf_counter() - start
        found.append(BenchmarkRow("cold publisher, from its start to the last shard", round(took, 1), "s", 60, 30))
        found.append(BenchmarkRow("publisher's peak memory, once all is published", peak_mb(process), "MB"))
        found.append(BenchmarkRow("Redis, per tenant", round((memory(client) - before) / tenants), "B"))
        time.sleep(BEFORE_SWEEPS_SECONDS)
        found += measure_edits(client)
        found.append(BenchmarkRow("publisher's peak memory, with edits and its reconciler", peak_mb(process), "MB"))
        found += measure_pages()
    if tenants == MANY:
        found += measure_checks(client)
    return found


def measure_seed(tenants: int) -> BenchmarkRow:
    from django.core.management import call_command

    start = time.perf_counter()
    call_command("seed", tenants=tenants, stdout=sys.stderr)
    return BenchmarkRow(f"manage.py seed --tenants {tenants}", round(time.perf_counter() - start), "s")


@contextmanager
def publisher() -> Iterator[subprocess.Popen[bytes]]:
    """The process of `manage.py publisher`, once it has published everything."""
    from quotas.demo.seeding import is_published

    process = subprocess.Popen([sys.executable, "manage.py", "publisher"], cwd=ROOT)
    try:
        wait_until(is_published, "the seed was not published")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def wait_until(is_done: Callable[[], bool], problem: str, pause: float = 0.05) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_done():
        if time.monotonic() > deadline:
            raise SystemExit(f"{problem} within {PATIENCE_SECONDS:.0f} s")
        time.sleep(pause)


def peak_mb(process: subprocess.Popen[bytes]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def measure_edits(client: Any) -> Iterator[BenchmarkRow]:
    """From the commit of an edit of one tenant until Redis decides by it; at random moments of the reconciler."""
    took = []
    for number in range(EDITS):
        time.sleep(random.Random(number).uniform(0, 0.5))
        took.append(edit_until_decided(client, number))
    yield BenchmarkRow(
        "edit of a tenant (its commit) to the first changed decision, p50", ms(median(took)), "ms", 200, 50
    )
    yield BenchmarkRow("the same, p90", ms(quantiles(took, n=10)[-1]), "ms")


def edit_until_decided(client: Any, number: int) -> float:
    from quotas.policies.edit import policy_update

    burst = 50_000 + number
    limit = {"name": "burst", "algorithm": "token_bucket", "rate": 10, "per": "10s", "burst": burst}
    policy_update(name="tenant-0000100-track", limits=[limit], **SAID)
    committed = time.perf_counter()
    wait_until(lambda: quota(client) == burst, "an edit was not published", 0.001)
    return time.perf_counter() - committed


def quota(client: Any) -> int:
    from headroom_edge import keys

    tenant = "tenant-0000100"
    reply = client.fcall("hr_peek", 1, keys.tenant_prefix(tenant), tenant, "rider:track", "1", "ALL")
    return next((int(limit[2]) for limit in reply[12:] if limit[0] == "burst"), -1)


def measure_pages() -> Iterator[BenchmarkRow]:
    """Server time through the whole Django stack: the fastest round, because other work only adds."""
    client, bearer = staff_client(), {"HTTP_AUTHORIZATION": f"Bearer {read_token()}"}
    for name, address in PAGES.items():
        yield BenchmarkRow(name, taken(partial(client.get, address)), "ms/page")
    for name, address in CALLS.items():
        yield BenchmarkRow(name, taken(partial(client.get, address, **bearer)), "ms/page")


def staff_client() -> Any:
    from django.contrib.auth.models import User
    from django.test import Client

    from tenants.models import Membership, Role

    user, _ = User.objects.get_or_create(username="bench", defaults={"password": "!"})
    Membership.objects.get_or_create(user=user, defaults={"role": Role.VIEWER})
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    return client


def read_token() -> str:
    from io import StringIO

    from django.core.management import call_command

    out = StringIO()
    call_command("token", "create", "bench", "--role", "viewer", "--scope", "read", stdout=out)
    return out.getvalue().split()[-1]


def taken(ask: Callable[[], Any]) -> float:
    found = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        answer = ask()
        found.append(time.perf_counter() - start)
        if answer.status_code != HTTPStatus.OK:
            raise SystemExit(f"a page answers {answer.status_code}: {answer.content[:300]!r}")
    return ms(min(found[1:]))


def measure_checks(many: Any) -> Iterator[BenchmarkRow]:
    """Redis' own time of a check, on a server with the first thousand tenants and on the one with all, in turns."""
    with throw_away_valkey() as few:
        publish_first(few, FEW)
        chance, times = random.Random(1), {FEW: list[float](), MANY: list[float]()}
        for turn in range(TURNS):
            for client, size in ((few, FEW), (many, MANY)):
                took = redis_time(client, [chance.randint(1, size) for _ in range(CALLS_A_TURN)])
                if turn:
                    times[size].append(took)
    fast = {size: quantiles(took, n=4)[0] for size, took in times.items()}
    yield BenchmarkRow(f"Redis time of a check with {MANY:,} tenants", round(fast[MANY], 1), "µs")
    yield BenchmarkRow(f"the same, against {FEW:,} tenants", round(fast[MANY] / fast[FEW], 3), "×", 1.2, 1.05)


def publish_first(client: Any, tenants: int) -> None:
    from django.conf import settings

    from headroom_edge import keys
    from headroom_edge.lua_library import ensure_loaded
    from quotas.demo.many_tenants import new_tenant
    from quotas.policies.compile import Compiler, Target
    from quotas.policies.configuration import configuration_part
    from quotas.publishing import store
    from quotas.publishing.shards import Shards

    names = [new_tenant(number).name for number in range(1, tenants + 1)]
    compiler = Compiler(Target(settings.HEADROOM_SHARDS, keys.shard_of, keys.shard_prefix), store.now_us(client))
    compiler.load(configuration_part(tenants=names, tiers=["free", "pro", "enterprise"]))
    ensure_loaded(client)
    Shards(client, settings.HEADROOM_SHARDS).replace(dict(enumerate(compiler.image.shards)))


def redis_time(client: Any, numbers: list[int]) -> float:
    """Microseconds per check, as measured by the server. The second check finds the record that the first has made."""
    from headroom_edge import keys
    from quotas.demo.many_tenants import new_tenant

    for is_counted in (False, True):
        client.config_resetstat()
        with client.pipeline(transaction=False) as pipe:
            for name in (new_tenant(number).name for number in numbers):
                pipe.fcall("hr_check", 1, keys.tenant_prefix(name), name, "driver:nearby", 1)
            pipe.execute()
        if is_counted:
            break
    return float(client.info("commandstats")["cmdstat_fcall"]["usec_per_call"])


def memory(client: Any) -> int:
    return int(client.info("memory")["used_memory"])


def database_size() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'")
        return int(cursor.fetchone()[0])


def ms(seconds: float) -> float:
    return round(seconds * 1_000, 1)
