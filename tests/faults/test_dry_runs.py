"""F33, dry runs: the largest one of a viewer hurts no writer, grows with its entries, and ends with its caller.

That the web process files a large document and plans nothing itself is tested in tests/api/test_document_tasks.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from django.db import connection

from headroom_edge.admin.session import POLL_S
from quotas.models import Revision, Task
from tests.access.people import token
from tests.config.workers import BROKER_DATABASE, Workers
from tests.faults.web import PATIENCE_S, Answer, Web, serving
from tests.figures import percentile
from tests.quotas.world import make_world, newest

pytestmark = pytest.mark.django_db(transaction=True)

PLAN, VALIDATE = "/v1/document/plan", "/v1/document/validate"
ROUNDS = 8
STOPPED = "A dry run was stopped: its caller has gone."


@pytest.fixture
def web(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> Iterator[Web]:
    make_world()
    broker = f"redis://127.0.0.1:{port_of(valkey_url)}/{BROKER_DATABASE}"
    with serving(valkey_url, token("owner"), tmp_path, BROKER_URL=broker) as process:
        yield process


@pytest.fixture
def worker(valkey_url: str, tmp_path: Path) -> Iterator[None]:
    """It does the large documents of `web`."""
    with ExitStack() as stack:
        Workers(stack, tmp_path, port_of(valkey_url)).worker()
        yield


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def followed(
    web: Web, path: str, body: object, remind: Callable[[], None] = lambda: None, every_s: float = 0.05
) -> Answer:
    """The response, or the task when it is over, with the status and the body that a small document has."""
    filed = web.ask("POST", path, body)
    if filed.status != 202 or "change" in filed.body:
        return filed
    began, task, looks = time.monotonic(), filed.body, 0
    while task["state"] not in ("done", "failed"):
        assert time.monotonic() - began < PATIENCE_S, task
        if (looks := looks + 1) % 400 == 0:
            remind()  # as beat does
        time.sleep(every_s)
        task = web.ask("GET", filed.headers["location"]).body
    return Answer(task["status"], filed.headers, task["result"], filed.took_s + time.monotonic() - began)


def entries(count: int) -> str:
    """A sixth are tiers, the others are endpoints: 6,000 is the most that a document may have of both."""
    tiers = count // 6
    lines = ["tiers:", *(f"  - {{name: t{n}}}" for n in range(tiers))]
    lines += ["endpoints:", *(f"  - {{name: 's{n % 7}:op{n}', path: /v1/op{n}}}" for n in range(count - tiers))]
    return "\n".join(lines)


def policies(count: int) -> str:
    limits = "[{name: burst, algorithm: gcra, rate: 5, burst: 10}]"
    tiers, endpoints = 10, count // 10
    lines = ["tiers:", *(f"  - {{name: t{n}}}" for n in range(tiers))]
    lines += ["endpoints:", *(f"  - {{name: 's:o{n}'}}" for n in range(endpoints)), "policies:"]
    for n in range(count):
        owner = f"tier: t{n % tiers}, endpoint: 's:o{n // tiers}'"
        lines.append(f"  - {{name: p{n}, {owner}, limits: {limits}}}")
    return "\n".join(lines)


def snapshots_open() -> int:
    """Transactions of a dry run, which alone have this setting."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() "
            "AND xact_start IS NOT NULL AND datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def test_a_dry_run_ends_when_its_caller_has_gone(web: Web) -> None:
    body = {"document": entries(500)}  # the most that is planned at once
    for _ in range(50):  # a fast machine may be done first
        wire = web.send("POST", PLAN, body)
        for _ in range(200):
            if snapshots_open():
                break
            threading.Event().wait(0.005)
        wire.close()
        while snapshots_open():
            threading.Event().wait(0.02)
        if STOPPED in web.log.read_text():
            break
    assert STOPPED in web.log.read_text()
    assert "Traceback" not in web.log.read_text()
    assert web.ask("GET", "/v1/tiers").status == 200


def patch(web: Web, number: int) -> float:
    asked = {"label": f"Label {number}", "reason": "a better name"}
    answer = web.ask("PATCH", "/v1/tenants/acme", asked, If_Match="*")
    assert answer.status == 200, answer
    return answer.took_s


def test_a_large_document_is_applied_once_though_its_worker_is_killed(
    web: Web, valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_KILL", "document")
    with ExitStack() as stack:
        workers = Workers(stack, tmp_path, port_of(valkey_url))
        workers.worker()
        before, body = Revision.objects.count(), {"document": entries(501), "reason": "many", "force": True}
        applied = followed(web, "/v1/document/apply", body, lambda: workers.ask(Task.objects.get()))
    assert (applied.status, applied.body) == (200, {"revision": newest().number})
    assert (Revision.objects.count(), workers.lines()) == (before + 1, ["document 1", "document 2"])


@pytest.mark.faults_long
def test_a_writer_beside_the_largest_dry_run(web: Web, worker: None, figures: Callable[[str], None]) -> None:
    """Rounds of PATCHes alone and beside a plan take turns, so that both meet the same load of the machine."""
    patch(web, 0)
    followed(web, PLAN, {"document": entries(6_000)})  # the worker has started
    alone, beside, took = list[float](), list[float](), list[float]()
    for number in range(ROUNDS):
        alone += [patch(web, place) for place in range(number * 1_000, number * 1_000 + 15)]
        more, seconds = patches_beside_a_plan(web, number * 1_000 + 100)
        beside += more
        took.append(seconds)
    before, middle = percentile(alone, 0.5), percentile(beside, 0.5)
    figures(
        f"{ROUNDS} rounds: {len(alone)} PATCHes alone {before * 1000:.0f} ms (worst {max(alone) * 1000:.0f}); "
        f"{len(beside)} beside plans of 6,000 entries of {percentile(took, 0.5):.1f} s: {middle * 1000:.0f} ms "
        f"(worst {max(beside) * 1000:.0f}), {middle / before:.2f} times as long"
    )
    assert len(beside) >= ROUNDS
    assert middle <= 2 * before


def patches_beside_a_plan(web: Web, number: int) -> tuple[list[float], float]:
    """How long each took, and the plan."""
    found, done = list[float](), threading.Event()

    def plan() -> float:
        try:
            answer = followed(web, PLAN, {"document": entries(6_000)}, every_s=POLL_S)
            assert answer.status == 200, answer
            return answer.took_s
        finally:
            done.set()

    with ThreadPoolExecutor(1) as pool:
        planned = pool.submit(plan)
        while not done.is_set():
            found.append(patch(web, number + len(found)))
        return found, planned.result()


@pytest.mark.faults_long
def test_a_dry_run_grows_with_its_entries(web: Web, worker: None, figures: Callable[[str], None]) -> None:
    def took(path: str, text: str) -> float:
        began = time.monotonic()
        answer = followed(web, path, {"document": text})
        assert answer.status == 200, answer
        return time.monotonic() - began

    took(PLAN, entries(60))
    sizes = {size: min(took(PLAN, entries(size)) for _ in range(3)) for size in (375, 1_500, 6_000)}
    checked = {size: min(took(VALIDATE, policies(size)) for _ in range(2)) for size in (2_250, 9_000)}
    told = ", ".join(f"{size:,}: {seconds:.2f} s" for size, seconds in sizes.items())
    valid = ", ".join(f"{size:,}: {seconds:.2f} s" for size, seconds in checked.items())
    figures(f"plan of entries {told}; validate of policies {valid}")
    assert sizes[6_000] <= 5 * sizes[1_500]
    assert checked[9_000] <= 5 * checked[2_250]


@pytest.mark.faults_long
def test_the_preview_of_a_rollback_of_thousands_of_objects(
    web: Web, worker: None, figures: Callable[[str], None]
) -> None:
    applied = followed(web, "/v1/document/apply", {"document": policies(3_000), "reason": "many", "force": True})
    assert applied.status == 200, applied
    number = applied.body["revision"]
    times = []
    for path, way in (
        (f"/v1/revisions/{number - 1}/rollback", "rollback"),
        (f"/v1/revisions/{number}/revert", "revert"),
    ):
        answer = web.ask("POST", f"{path}?dry_run=true", {"reason": "see"})
        assert answer.status == 200, answer
        times.append(f"{way} {answer.took_s:.2f} s")
    figures(f"applied 3,000 policies in {applied.took_s:.1f} s; previews: {', '.join(times)}")
