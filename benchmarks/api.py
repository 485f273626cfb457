"""The REST API at scale: a page out of 100,000 tenants, and the plan of a document with 1,000 policies."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from statistics import median

from benchmarks.isolated_process import run_isolated
from benchmarks.report import BenchmarkRow
from config.data_folders import ROOT

FEW, MANY = 100, 100_000
PAGE = 50
PAGES = 60
TIERS, ENDPOINTS = 10, 100  # one policy each
PLANS = 3
SAID = {"author": "bench", "reason": "bench"}


def run() -> list[BenchmarkRow]:
    return run_isolated(__name__)


def measure() -> list[BenchmarkRow]:
    # Nothing is published here, and the limiter of the API would log that.
    logging.getLogger("headroom_edge").setLevel(logging.ERROR)
    apply(document(rate=100))
    ask = asker()
    add_tenants(0, FEW)
    few = median_s(ask, PAGES)
    add_tenants(FEW, MANY)
    many = median_s(ask, PAGES)
    plan = median_s(planner(), PLANS)
    return [
        BenchmarkRow(f"page of {PAGE} tenants out of {FEW}", round(few * 1_000, 2), "ms"),
        BenchmarkRow(f"page of {PAGE} tenants out of {MANY:,}", round(many * 1_000, 2), "ms"),
        BenchmarkRow(f"page out of {MANY:,} ÷ page out of {FEW}", round(many / few, 2), "×", 1.5, 1.1),
        BenchmarkRow(f"policy plan of {TIERS * ENDPOINTS:,} policies, all changed", round(plan, 2), "s", 3, 1.5),
        BenchmarkRow("the same as `manage.py policy plan`, its start included", round(command_s(), 2), "s"),
    ]


def asker() -> Callable[[], None]:
    """Requests a page through the whole Django stack."""
    from django.test import Client

    from quotas.tokens import token_issue

    issued = token_issue(label="bench", role="viewer", scopes=["read"], **SAID)
    client = Client(SERVER_NAME="localhost", headers={"authorization": f"Bearer {issued.text}"})

    def ask() -> None:
        answer = client.get(f"/v1/tenants?limit={PAGE}&order=-name")
        if answer.status_code != HTTPStatus.OK or len(answer.json()["items"]) != PAGE:
            raise SystemExit(f"no page of {PAGE}: {answer.content!r}")

    return ask


def add_tenants(start: int, end: int) -> None:
    """Inserts by one statement: the functions of `quotas` would write a revision with all of them."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO tenants_tenant (name, label, tier_id, timezone, suspended, suspended_reason, handovers)
            SELECT 'tenant-' || to_char(wanted, 'FM000000'), '', tiers.number, 'UTC', false, '', '[]'
            FROM generate_series(%s::int, %s::int) AS wanted
            JOIN tenants_tier AS tiers ON tiers.name = 'tier' || (wanted %% 10)""",
            [start, end - 1],
        )
    analyze()


def analyze() -> None:
    """What autovacuum does within a minute. Only the owner of the tables may do it."""
    import psycopg
    from django.conf import settings

    with psycopg.connect(settings.MIGRATION_DATABASE_URL, autocommit=True) as owner:
        owner.execute("ANALYZE")


def document(rate: int) -> str:
    limits = [
        {"name": "burst", "algorithm": "token_bucket", "rate": rate, "burst": 2 * rate},
        {"name": "minute", "algorithm": "fixed_window", "limit": 30 * rate, "window": "1m"},
    ]
    tiers = [f"tier{number}" for number in range(TIERS)]
    endpoints = [f"service:e{number}" for number in range(ENDPOINTS)]
    policies = [
        {"name": f"{tier}-e{number}", "tier": tier, "endpoint": endpoint, "limits": limits}
        for tier in tiers
        for number, endpoint in enumerate(endpoints)
    ]
    whole = {
        "tiers": [{"name": name} for name in tiers],
        "endpoints": [{"name": name} for name in endpoints],
        "policies": policies,
    }
    return json.dumps(whole)


def apply(text: str) -> None:
    from quotas.errors import accepted
    from quotas.policies.apply import document_apply
    from quotas.policies.document import read_document

    document_apply(document=accepted(read_document(text)), **SAID)  # type: ignore[arg-type]


def planner() -> Callable[[], None]:
    from quotas.errors import accepted
    from quotas.policies.apply import document_plan
    from quotas.policies.document import read_document

    text = document(rate=120)

    def plan() -> None:
        found = document_plan(document=accepted(read_document(text)), author="bench")
        if len(list(found.lines())) < TIERS * ENDPOINTS:
            raise SystemExit("the plan lacks policies")

    return plan


def command_s() -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        Path(file.name).write_text(document(rate=120), encoding="utf-8")
        command = [sys.executable, "manage.py", "policy", "plan", file.name]
        return median_s(lambda: subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL), 3)


def median_s(act: Callable[[], object], times: int) -> float:
    return median(_timed_s(act) for _ in range(times))


def _timed_s(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start
