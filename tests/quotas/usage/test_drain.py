"""What Redis counted arrives in every rollup, once."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime

import pytest
import redis
from django.core.management import call_command
from django.db.models import Sum

from headroom_edge import keys
from quotas.models.usage import ROLLUPS, Arrival, Denial, DrainBatch, DrainState, Rollup, UsageHour, UsageStep
from quotas.usage.drain import drain
from quotas.usage.fold import fold_all
from tests.quotas.usage.counters import Hit, count, expected, in_postgres, in_redis

pytestmark = pytest.mark.django_db(transaction=True)


def some_hits(number: int, seed: int = 1) -> list[Hit]:
    chance = random.Random(seed)
    return [
        Hit(chance.randint(1, 40), chance.randint(0, 3), *chance.choice((("a", 0), ("d", 3), ("o", 4), ("w", 5))))
        for _ in range(number)
    ]


@pytest.mark.parametrize("model", ROLLUPS)
def test_every_rollup_has_the_same_exact_sum(valkey: redis.Redis, model: type[Rollup]) -> None:
    hits = some_hits(3_000)
    count(valkey, hits)
    summary = drain(valkey)
    fold_all()
    assert in_postgres(model) == expected(hits)
    assert not in_redis(valkey)
    assert summary.batches == len({hit.usage_key for hit in hits})


def test_batches_add_up_in_the_same_row(valkey: redis.Redis) -> None:
    second = valkey.time()[0]
    for cost in (5, 7):
        count(valkey, [Hit(9, cost=cost, second=second)])
        drain(valkey)
    fold_all()
    row = UsageStep.objects.get()
    assert (row.count, row.cost) == (2, 12)
    assert row.start == datetime.fromtimestamp(second - second % 10, UTC)


def test_rows_start_where_their_step_starts(valkey: redis.Redis) -> None:
    count(valkey, some_hits(50))
    drain(valkey)
    fold_all()
    for model in ROLLUPS:
        for row in model._default_manager.all():
            assert row.start.timestamp() % model.step.total_seconds() == 0


def test_nothing_to_drain_still_says_that_all_is_drained(valkey: redis.Redis) -> None:
    before = datetime.fromtimestamp(valkey.time()[0], UTC)
    summary = drain(valkey)
    assert summary.batches == 0
    assert DrainState.objects.get().drained_at >= before
    assert not DrainBatch.objects.exists()


def test_numbers_that_nobody_knows_are_kept(valkey: redis.Redis) -> None:
    hits = [Hit(0, 0, "u", shard=5), Hit(36**5 - 1, 36**3 - 1, "d", 36**5 - 1)]
    count(valkey, hits)
    drain(valkey)
    assert in_postgres() == expected(hits)


def test_garbage_is_counted_and_the_rest_is_kept(valkey: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    hits = [Hit(64)]
    count(valkey, hits)
    valkey.hset(keys.usage(0), "nonsense", "1")
    valkey.hset(keys.usage(0), b"s\xff\x00", "x")
    summary = drain(valkey)
    assert summary.unreadable == 2
    assert "nonsense" in caplog.text
    assert in_postgres() == expected(hits)


def test_a_time_far_in_the_future_makes_no_slice(valkey: redis.Redis) -> None:
    count(valkey, [Hit(64, second=2**32 - 1), Hit(64)])
    assert drain(valkey).unreadable == 1
    assert in_postgres() == expected([Hit(64)])


def test_what_a_rollup_would_no_longer_keep_stays_in_the_coarser_ones(valkey: redis.Redis) -> None:
    three_days_ago = valkey.time()[0] - 3 * 86_400
    hits = [Hit(64, second=three_days_ago)]
    count(valkey, hits)
    drain(valkey)
    fold_all()
    assert not in_postgres(UsageStep)
    assert in_postgres(UsageHour) == expected(hits)


def test_arrivals_of_a_batch_are_kept_once(valkey: redis.Redis) -> None:
    now_us = valkey.time()[0] * 1_000_000
    count(valkey, [Hit(64)])
    items = [f"0001s001 00000000000000ff {now_us + i} 3 a" for i in range(12_000)]
    valkey.rpush(f"{keys.shard_prefix(0)}:a", *items)
    assert drain(valkey).arrivals == 12_000
    assert Arrival.objects.filter(tenant_number=64, subject=255, allowed=True).count() == 12_000
    assert Arrival.objects.aggregate(total=Sum("cost"))["total"] == 36_000


def test_denials_are_copied_once_and_without_their_subject(valkey: redis.Redis) -> None:
    now_us = valkey.time()[0] * 1_000_000
    key = keys.denials(0, keys.tenant_number(64))
    for i in range(3):
        valkey.lpush(key, f"{now_us + i} 001 3 limit 1 250000 12 :001/key:secret-key")
        count(valkey, [Hit(64, outcome="d", limit=3)])
        drain(valkey)
    rows = Denial.objects.order_by("at")
    assert [row.limit_number for row in rows] == [3, 3, 3]
    assert len({bytes(row.subject) for row in rows}) == 1
    assert b"secret" not in bytes(rows[0].subject)
    assert rows[0].at == datetime.fromtimestamp(now_us / 1_000_000, UTC)


def test_batches_are_grouped_so_that_memory_stays_bounded(valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotas.usage.drain.FIELDS_AT_ONCE", 20)
    hits = some_hits(2_000)
    count(valkey, hits)
    steps: list[str] = []
    drain(valkey, on_step=steps.append)
    assert in_postgres() == expected(hits)
    assert steps.count("committed") > 3


def test_a_batch_is_remembered_with_its_shard_and_size(valkey: redis.Redis) -> None:
    count(valkey, [Hit(64), Hit(64, outcome="d")])
    drain(valkey)
    batch = DrainBatch.objects.get()
    assert (batch.shard, batch.rows) == (0, 2)
    assert batch.run_id == valkey.info("server")["run_id"]


def test_a_batch_that_somebody_named_by_hand_is_added_once(valkey: redis.Redis) -> None:
    count(valkey, [Hit(64)])
    drain(valkey)
    count(valkey, [Hit(64)])
    valkey.fcall("hr_drain", 1, keys.shard_prefix(0), "TAKE", "by hand")
    drain(valkey)
    drain(valkey)
    assert in_postgres() == expected([Hit(64)] * 2)
    assert not in_redis(valkey)


def test_a_shard_that_cannot_be_drained_does_not_stop_the_others(
    valkey: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    valkey.set(keys.usage_batch(1), "not a hash")
    count(valkey, [Hit(64), Hit(65), Hit(66)])
    drain(valkey)
    assert in_postgres() == expected([Hit(64), Hit(66)])
    assert "shard 1 cannot be drained" in caplog.text


def test_the_command_says_how_much_it_was(valkey: redis.Redis, capsys: pytest.CaptureFixture[str]) -> None:
    count(valkey, [Hit(64), Hit(64), Hit(65, outcome="d")])
    call_command("drain")
    assert re.fullmatch(
        r"drained up to .* UTC: 2 batches, 2 counters into 2 cells, 0 arrivals, 0 denials, 0 unreadable\n",
        capsys.readouterr().out,
    )
