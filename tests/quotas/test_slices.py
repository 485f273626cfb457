"""Long tasks in slices: each is done once, the result does not depend on the cut, and one that fails fails alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from quotas import slices
from quotas.errors import accepted, refuse
from quotas.locks import Lock, let_go, try_hold
from quotas.long_tasks import MOST_TRIES, PATIENCE, Progress, task_file, tasks_waiting
from quotas.models import Recommendation, Task, TaskSlice
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.recommendations.runs import CALIBRATION, calibration_ask, calibration_now
from quotas.slices import Cut, SlicedWork, shared_out, slice_do, slices_cut, task_do
from quotas.what_if import WHAT_IF, whatif, whatif_ask
from tests.quotas.recorded import make_recorded, working
from tests.quotas.world import GET, PAY, SAID

pytestmark = pytest.mark.django_db

MORE_LIMITS = f"""
policies:
  - name: pro-all
    tier: pro
    endpoint: "*"
    limits: [{{name: minute, algorithm: sliding_counter, limit: 20, window: 1m}}]
  - name: pro-pay
    tier: pro
    endpoint: "{PAY}"
    limits: [{{name: idle, algorithm: token_bucket, rate: 9, burst: 9}}]
"""
DRAFT = f"""
policies:
  - {{name: pro-get, tier: pro, endpoint: "{GET}",
      limits: [{{name: steady, algorithm: token_bucket, rate: 20, per: 1m, burst: 20}}]}}
"""


class Adder:
    """Adds numbers, one a slice, and notes what it does. `trouble` may raise."""

    def __init__(self, trouble: Callable[[int], None] = lambda number: None) -> None:
        self.done: list[int] = []
        self.trouble = trouble
        self.work = SlicedWork(self._cut, self._do, lambda _, results: {"sum": sum(one["it"] for one in results)})

    def _cut(self, asked: Mapping[str, Any]) -> Cut:
        return Cut({}, [{"what": f"number {number}", "number": number} for number in asked["numbers"]])

    def _do(self, _: Mapping[str, Any], part: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        progress("adding", 1, 2)
        self.trouble(part["number"])
        self.done.append(part["number"])
        return {"it": part["number"]}


def asked_to_add(*numbers: int) -> Task:
    return task_file(kind=Task.Kind.CALIBRATE, author="ann", asked={"numbers": numbers})


def recommendations() -> list[dict[str, Any]]:
    names = ("policy", "limit", "tenant", "stage", "current", "proposed", "evidence", "forecast", "summary", "trust")
    return list(Recommendation.objects.order_by("policy", "limit", "tenant").values(*names, "measured_at", "problem"))


@pytest.fixture
def recorded(db: None) -> None:
    make_recorded({f"t{number}": working(f"t{number}", 0.2 + number / 10, hours=1) for number in range(6)}, days=15)
    document_apply(document=accepted(read_document(MORE_LIMITS)), force=True, **SAID)


@pytest.mark.usefixtures("recorded")
def test_a_calibration_finds_the_same_in_one_slice_and_in_many(monkeypatch: pytest.MonkeyPatch) -> None:
    many = calibration_now(author="ann")
    found = recommendations()
    assert (many.state, many.problem) == ("done", "")
    assert len(found) > 2
    Recommendation.objects.all().delete()
    monkeypatch.setattr(slices, "MOST_SLICES", 1)
    one = calibration_now(author="ann")
    assert recommendations() == found
    assert one.result is not None
    assert many.result is not None
    assert (one.result["limits"], len(one.result["proposed"])) == (4, len(many.result["proposed"]))
    assert {**one.result, "proposed": 0} == {**many.result, "proposed": 0}


@pytest.mark.usefixtures("recorded")
def test_a_what_if_finds_the_same_in_one_slice_and_in_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotas.what_if.LEAST_TENANTS", 1)
    task = whatif_ask(document=DRAFT, author="ann", days=7)
    assert slices_cut(task.pk, WHAT_IF) == (6, True)
    slice_do(task.pk, WHAT_IF)
    task.refresh_from_db()
    assert task.result is not None
    assert (len(task.result["order"]), len(task.result["seen"])) == (6, 1)  # the page shows what there is
    assert task_do(task.pk, WHAT_IF).result == whatif(DRAFT, days=7)


@pytest.mark.parametrize(("things", "least", "parts"), [(0, 1, 0), (3, 1, 3), (200, 1, 64), (40, 8, 5), (3, 8, 1)])
def test_things_are_shared_out_evenly_and_none_is_lost(things: int, least: int, parts: int) -> None:
    found = shared_out(range(things), least)
    assert len(found) == parts
    assert sorted(one for part in found for one in part) == list(range(things))
    assert {len(part) for part in found} <= {things // max(1, parts), things // max(1, parts) + 1}


def test_a_slice_that_is_done_is_not_done_again() -> None:
    stops = [2]

    def stop(number: int) -> None:
        if number in stops:
            stops.remove(number)
            raise SystemExit  # as a worker that is told to go

    adder = Adder(stop)
    task = asked_to_add(1, 2, 3)
    with pytest.raises(SystemExit):
        task_do(task.pk, adder.work)
    assert task_do(task.pk, adder.work).result == {"sum": 6}
    assert adder.done == [1, 2, 3]
    assert not TaskSlice.objects.exists()
    assert slices_cut(task.pk, adder.work) == (0, False)  # delivered again
    assert not slice_do(task.pk, adder.work)


def test_a_slice_that_fails_is_shown_with_its_reason_and_the_others_are_kept() -> None:
    def trouble(number: int) -> None:
        if number == 2:
            raise refuse("limit", "gone", "the limit is gone")
        if number == 3:
            raise ZeroDivisionError

    task = task_do(asked_to_add(1, 2, 3, 4).pk, Adder(trouble).work)
    assert (task.state, task.percent) == ("done", 100)
    assert task.problem == "2 of 4 slices failed, the first (number 2): limit: the limit is gone"
    assert task.result == {
        "sum": 5,
        "failed": [
            {"what": "number 2", "problem": "limit: the limit is gone"},
            {"what": "number 3", "problem": "it broke off; the server's log says why (ZeroDivisionError)"},
        ],
    }


def test_a_task_has_failed_if_all_its_slices_have() -> None:
    def trouble(number: int) -> None:
        raise refuse("limit", "gone", "the limit is gone")

    task = task_do(asked_to_add(1, 2).pk, Adder(trouble).work)
    assert (task.state, task.problem, task.result) == ("failed", "limit: the limit is gone", None)


def test_a_task_without_anything_to_do_is_done_at_once() -> None:
    assert task_do(asked_to_add().pk, Adder().work).result == {"sum": 0}


def test_a_slice_that_kills_its_workers_is_set_aside() -> None:
    def dies(number: int) -> None:
        if number == 1:
            raise OperationalError("the connection is closed")

    adder = Adder(dies)
    task = asked_to_add(1, 2)
    for _ in range(MOST_TRIES):
        with pytest.raises(OperationalError):
            task_do(task.pk, adder.work)
    done = task_do(task.pk, adder.work)
    assert done.result == {
        "sum": 2,
        "failed": [{"what": "number 1", "problem": "set aside: it ended its worker 3 times"}],
    }


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ZeroDivisionError(), "it broke off"),
        (refuse("limit", "gone", "the limit is gone"), "limit: the limit is gone"),
    ],
)
def test_a_task_whose_results_cannot_be_joined_has_failed(error: Exception, problem: str) -> None:
    def join(*_: object) -> dict[str, Any]:
        raise error

    work, task = replace(Adder().work, join=join), asked_to_add(1, 2)
    assert task_do(task.pk, work).state == "failed"
    task.refresh_from_db()
    assert task.problem.startswith(problem)
    assert not TaskSlice.objects.exists()
    Task.objects.update(changed=timezone.now() - 2 * PATIENCE)
    assert tasks_waiting() == []


def test_a_join_without_the_database_is_tried_again() -> None:
    def join(*_: object) -> dict[str, Any]:
        raise OperationalError

    adder, task = Adder(), asked_to_add(1, 2)
    with pytest.raises(OperationalError):
        task_do(task.pk, replace(adder.work, join=join))
    assert task_do(task.pk, adder.work).result == {"sum": 3}


def test_progress_is_that_of_all_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "EVERY_S", 0)
    told: list[tuple[str, int, int]] = []
    task_do(asked_to_add(1, 2, 3, 4).pk, Adder().work, lambda *step: told.append(step))
    assert told == [("adding", percent, 100) for percent in (12, 37, 62, 87)]


@pytest.mark.django_db(transaction=True)
def test_a_slice_is_held_by_one_worker_and_free_when_its_connection_ends() -> None:
    adder, task = Adder(), asked_to_add(1)
    slices_cut(task.pk, adder.work)
    number = TaskSlice.objects.get().pk

    def elsewhere(do: Callable[[], bool]) -> bool:
        try:
            return do()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        assert try_hold(Lock.SLICE, number)
        assert not other.submit(elsewhere, lambda: slice_do(task.pk, adder.work)).result()
        let_go(Lock.SLICE, number)
        assert other.submit(elsewhere, lambda: try_hold(Lock.SLICE, number)).result()  # and then it dies
    assert task_do(task.pk, adder.work).result == {"sum": 1}


@pytest.mark.django_db(transaction=True)
def test_two_who_ask_for_a_calibration_at_once_get_one() -> None:
    def ask(_: int) -> int:
        try:
            return calibration_ask(author="ann").pk
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(16)))) == 1
    assert Task.objects.count() == 1


def test_a_task_of_which_nobody_has_heard_is_sent_again() -> None:
    task = calibration_ask(author="ann")
    assert tasks_waiting() == []
    now = timezone.now()
    Task.objects.update(created=now - 2 * PATIENCE)
    assert tasks_waiting() == [task]
    slices_cut(task.pk, CALIBRATION)
    Task.objects.update(state=Task.State.RUNNING, changed=now)
    assert tasks_waiting() == []
    Task.objects.update(changed=now - PATIENCE - timedelta(seconds=1))
    assert tasks_waiting() == [task]
