"""What drains brought arrives in every rollup once, whoever dies on the way."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.db import connection, transaction

from quotas.locks import take_lock
from quotas.models.usage import ROLLUPS, DrainState
from quotas.models.usage_rates import FoldState, RatesHour, UsageLog
from quotas.tasks import fold_usage_into
from quotas.usage import fold
from quotas.usage.drain import drain
from quotas.usage.fold import FOLDS, UnreadableLogError, fold_all, fold_due, fold_one, folds_due, run_fold
from tests.quotas.usage.counters import Hit, count, expected, in_postgres

pytestmark = pytest.mark.django_db(transaction=True)


class KilledError(Exception):
    pass


def hits(seed: int) -> list[Hit]:
    chance = random.Random(seed)
    return [Hit(chance.randint(1, 30), chance.randint(1, 3), chance.choice("ad")) for _ in range(300)]


def fill(valkey: redis.Redis, drains: int = 4) -> list[Hit]:
    every = []
    for seed in range(drains):
        some = hits(seed)
        count(valkey, some)
        drain(valkey)
        every += some
    return every


def test_many_drains_are_folded_at_once_and_the_log_is_emptied(valkey: redis.Redis) -> None:
    every = fill(valkey)
    assert UsageLog.objects.count() == 4
    fold_all()
    fold_all()
    for model in ROLLUPS:
        assert in_postgres(model) == expected(every)
    assert not UsageLog.objects.exists()


@pytest.mark.parametrize("step", ["added", "folded"])
@pytest.mark.parametrize("name", FOLDS)
def test_a_fold_that_dies_adds_nothing_twice(valkey: redis.Redis, name: str, step: str) -> None:
    every = fill(valkey, 2)

    def die(reached: str) -> None:
        if reached == step:
            raise KilledError

    with pytest.raises(KilledError):
        run_fold(FOLDS[name], on_step=die)
    fold_all()
    for model in ROLLUPS:
        assert in_postgres(model) == expected(every)
    asked = sum(row.allowed + row.denied for row in RatesHour.objects.filter(endpoint_number=-1))
    assert asked == len(every)


def test_a_long_log_is_folded_in_pieces(valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    every = fill(valkey)
    monkeypatch.setattr(fold, "BYTES_AT_ONCE", 1)
    steps: list[str] = []
    assert run_fold(FOLDS["minutes"], on_step=steps.append) == 4
    assert steps.count("folded") == 4
    assert in_postgres(ROLLUPS[1]) == expected(every)


@pytest.mark.parametrize("damaged", [b"", b"\x01", b"\x00", b"\x01not zlib", b"\x00" + bytes([1, 0, 0, 0, 1, 9])])
def test_a_row_that_cannot_be_read_is_named_and_its_counts_wait_for_somebody_who_can(
    valkey: redis.Redis, damaged: bytes
) -> None:
    every = fill(valkey, 3)
    row = UsageLog.objects.order_by("id")[1]
    UsageLog.objects.filter(pk=row.pk).update(cells=damaged or row.cells[:-1])
    for name in FOLDS:
        with pytest.raises(UnreadableLogError, match=f"log {row.pk} of .* cannot be read"):
            run_fold(FOLDS[name])
    assert fold.delete_folded_log() == 0
    UsageLog.objects.filter(pk=row.pk).update(cells=row.cells)
    fold_all()
    for model in ROLLUPS:
        assert in_postgres(model) == expected(every)
    assert not UsageLog.objects.exists()


def test_the_task_of_a_fold_says_which_row_it_is(valkey: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    fill(valkey, 1)
    UsageLog.objects.update(cells=b"\x00")
    fold_usage_into("minutes")
    assert "cannot be read, so the folds wait there and lose nothing" in caplog.text


def test_the_log_waits_for_the_slowest_fold(valkey: redis.Redis) -> None:
    fill(valkey, 1)
    run_fold(FOLDS["minutes"])
    assert fold.delete_folded_log() == 0
    assert UsageLog.objects.count() == 1


def test_each_fold_has_its_own_pace(valkey: redis.Redis) -> None:
    fill(valkey, 1)
    now = DrainState.objects.get().drained_at
    assert fold_due(now) == ["steps", "minutes", "hours", "rates", "latency"]
    assert fold_due(now + timedelta(seconds=3)) == []
    assert fold_due(now + timedelta(seconds=9)) == ["steps"]
    assert fold_due(now + timedelta(seconds=11)) == ["steps", "minutes"]


def test_folds_run_side_by_side_and_none_waits_for_another_at_the_same_one(valkey: redis.Redis) -> None:
    every = fill(valkey)
    now = DrainState.objects.get().drained_at

    def fold_elsewhere(name: str) -> bool:
        try:
            return fold_one(name, now)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(FOLDS)) as others:
        with transaction.atomic():
            take_lock(FOLDS["minutes"].lock)
            names = folds_due(now)
            done = dict(zip(names, others.map(fold_elsewhere, names), strict=True))
        assert [name for name, is_done in done.items() if not is_done] == ["minutes"]
        assert len(UsageLog.objects.all()) == 4  # what the minutes have not read stays
        assert any(others.map(fold_elsewhere, ["minutes"] * 4))
    for model in ROLLUPS:
        assert in_postgres(model) == expected(every)
    assert not UsageLog.objects.exists()


def test_a_fold_knows_up_to_when_it_is_whole(valkey: redis.Redis) -> None:
    drain(valkey)
    fold_all()
    drained = DrainState.objects.get().drained_at
    assert drained > datetime(2020, 1, 1, tzinfo=UTC)
    assert set(FoldState.objects.values_list("until", flat=True)) == {drained}
