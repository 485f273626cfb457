"""F33, the editors: many at once on one web process. Each is written in order, or told the true reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from django.db import connections

from quotas.locks import Lock
from quotas.models import Revision
from quotas.models.revision import newest_revision_number
from tests.access.people import token
from tests.faults.web import Answer, Web, serving
from tests.figures import percentile
from tests.quotas.world import make_world

pytestmark = pytest.mark.django_db(transaction=True)

EDITORS = 40


@pytest.fixture
def web(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> Iterator[Web]:
    make_world()
    with serving(valkey_url, token("owner"), tmp_path) as process:
        yield process


def edit(web: Web, editor: int, turn: int) -> Answer:
    """A label of its own for each edit, so that the history shows which one it was."""
    reason = f"editor {editor}, edit {turn}"
    asked = {"limits": [_limit(100 + editor + 50 * (turn % 2))], "force": True, "reason": reason}
    policy = "pro-all" if editor % 2 else "free-all"
    return web.ask("PUT", f"/v1/policies/{policy}", asked, If_Match="*")


def _limit(rate: int) -> dict[str, object]:
    return {"name": "burst", "algorithm": "token_bucket", "rate": rate, "burst": 2 * rate}


def check_editors(web: Web, rounds: int) -> tuple[list[Answer], int]:
    before = newest_revision_number()
    answers: list[Answer] = []
    for turn in range(rounds):
        with ThreadPoolExecutor(EDITORS) as pool:
            answers += pool.map(lambda editor, turn=turn: edit(web, editor, turn), range(EDITORS))
    told = Counter(answer.status for answer in answers)
    assert set(told) <= {200, 409, 503}, told
    for refused in (answer for answer in answers if answer.status != 200):
        assert "cannot be reached" not in refused.body["detail"], refused
        assert int(refused.headers["retry-after"]) > 0, refused
    numbers = [int(a.headers["headroom-revision"]) for a in answers if "headroom-revision" in a.headers]
    assert sorted(numbers) == list(range(before + 1, newest_revision_number() + 1))
    times = list(Revision.objects.filter(number__gt=before).order_by("number").values_list("created", flat=True))
    assert times == sorted(times)
    return answers, told[200]


def test_forty_editors_at_once_are_written_in_order_or_told_why_not(web: Web) -> None:
    _, written = check_editors(web, rounds=1)
    assert written >= EDITORS // 4  # a slow machine may not do all of them in time


@pytest.mark.faults_long
def test_an_editor_behind_a_writer_that_does_not_end_is_told_why(web: Web) -> None:
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [Lock.REVISIONS.value])
        with ThreadPoolExecutor(EDITORS) as pool:
            answers = list(pool.map(lambda editor: edit(web, editor, 0), range(EDITORS)))
            page = web.ask("GET", "/v1/policies/pro-all")
    finally:
        other.close()
    assert page.status == 200
    assert {(a.status, a.body["code"], a.body["detail"]) for a in answers} == {
        (503, "busy", "Another change is being written; try again in 2 seconds.")
    }
    assert {a.headers["retry-after"] for a in answers} == {"2"}


@pytest.mark.faults_long
def test_forty_editors_for_long(web: Web, figures: Callable[[str], None]) -> None:
    answers, written = check_editors(web, rounds=10)
    slowest = percentile([answer.took_s for answer in answers], 0.99)
    figures(f"10 rounds of {EDITORS} editors: {written} of {len(answers)} written, p99 {slowest:.1f} s")
