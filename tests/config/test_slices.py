"""F36: a calibration fanned out over workers that are killed in the middle, and asked for twice at once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from quotas.errors import accepted
from quotas.models import Recommendation, Task
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.recommendations.runs import calibration_ask, calibration_now
from tests.config.workers import Workers, end, eventually
from tests.quotas.recorded import make_recorded, working
from tests.quotas.world import GET, SAID

pytestmark = pytest.mark.django_db(transaction=True)

DOOMED = "m3 of pro-get"


def make_limits(count: int) -> set[str]:
    """A policy with so many limits that are too low; returns what each slice is about, one limit each."""
    names = [f"m{number}" for number in range(count)]
    limits = [
        f"{{name: {name}, algorithm: sliding_counter, limit: {6 + place}, window: 1m}}"
        for place, name in enumerate(names)
    ]
    text = f"policies: [{{name: pro-get, tier: pro, endpoint: '{GET}', limits: [{', '.join(limits)}]}}]"
    with transaction.atomic():
        make_recorded({f"t{number}": working(f"t{number}", 0.3, hours=1) for number in range(5)}, days=15)
        document_apply(document=accepted(read_document(text)), force=True, **SAID)
    return {"hourly of free-pay", *(f"{name} of pro-get" for name in names)}


def found() -> list[tuple[object, ...]]:
    rows = Recommendation.objects.order_by("policy", "limit", "tenant")
    return list(rows.values_list("policy", "limit", "tenant", "stage", "proposed", "summary", "forecast"))


def asked_at_once(workers: Workers) -> int:
    """Two people ask at the same moment; both messages go out."""

    def ask(_: int) -> int:
        try:
            task = calibration_ask(author="ann")
            workers.ask(task)
            return task.pk
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as people:
        (number,) = set(people.map(ask, range(2)))
    return number


def over(number: int) -> Task | None:
    task = Task.objects.get(pk=number)
    return task if task.is_over else None


def test_each_slice_is_done_once_though_a_worker_is_killed_and_two_asked(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = make_limits(5)
    monkeypatch.setenv("CANARY_KILL", DOOMED)
    workers.worker(processes=2)
    number = asked_at_once(workers)
    eventually(lambda: over(number))
    begun = Counter(line.removesuffix(" begins") for line in workers.lines() if line.endswith("begins"))
    assert begun == Counter(slices) + Counter([DOOMED])
    assert Counter(line.removesuffix(" ends") for line in workers.lines() if line.endswith("ends")) == Counter(slices)
    task = Task.objects.get()
    assert (task.state, task.problem, task.percent) == ("done", "", 100)
    assert task.result is not None
    assert task.result["limits"] == len(slices)
    fanned_out = found()
    assert fanned_out
    Recommendation.objects.all().delete()
    calibration_now(author="ann")
    assert found() == fanned_out


@pytest.mark.faults_long
def test_workers_that_are_killed_again_and_again_cost_their_slices_only(
    workers: Workers, figures: Callable[[str], None]
) -> None:
    """Whole workers with their children, at random moments; at most two deaths a slice are survived for certain."""
    chance, slices, kills = random.Random(36), make_limits(30), 0
    running = [workers.worker(processes=2) for _ in range(2)]
    number = asked_at_once(workers)
    while not over(number):
        time.sleep(chance.uniform(1.0, 3.0))
        if kills < 10 and any(line.endswith("begins") for line in workers.lines()):
            kills += 1
            end(running.pop(0))
            running.append(workers.worker(processes=2))
        workers.ask(Task.objects.get())  # as beat does for a task of which nobody has heard
    ended = Counter(line.removesuffix(" ends") for line in workers.lines() if line.endswith("ends"))
    begun = [line for line in workers.lines() if line.endswith("begins")]
    task = Task.objects.get()
    assert task.result is not None
    aside = {one["what"] for one in task.result.get("failed", [])}
    assert task.state == "done"
    assert ended.keys() | aside == slices
    assert task.result["limits"] == len(slices) - len(aside)
    figures(
        f"{len(slices)} slices, {kills} workers killed: {len(begun)} begun, {sum(ended.values())} ended, "
        f"{len(aside)} set aside, all others kept"
    )
