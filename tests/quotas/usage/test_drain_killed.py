"""F19: kill -9 at each step, two drains at once: Postgres and what is left in Redis are what was acknowledged."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
import redis

from config.data_folders import ROOT
from quotas.models.usage import ROLLUPS, Arrival
from quotas.usage.drain import drain
from quotas.usage.fold import fold_all
from tests.processes import environment
from tests.quotas.usage.counters import Hit, count, expected, in_postgres, in_redis

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = ("taken", "read", "registered", "added", "committed", "done")
Start = Callable[[Sequence[str]], "subprocess.Popen[str]"]


@pytest.fixture
def start(valkey_url: str) -> Start:
    """Starts a process of doomed drains on the servers of this test."""

    def begin(steps: Sequence[str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.quotas.usage.doomed_drains", *steps]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment(valkey_url), text=True, stdin=pipe, stdout=pipe, cwd=ROOT)

    return begin


def finish(process: subprocess.Popen[str]) -> list[str]:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return output.splitlines()


def some_hits(chance: random.Random, number: int) -> list[Hit]:
    return [Hit(chance.randint(1, 200), outcome=chance.choice("ad"), limit=3) for _ in range(number)]


def test_a_drain_killed_at_any_step_loses_and_doubles_nothing(valkey: redis.Redis, start: Start) -> None:
    process = start([])
    assert process.stdin is not None
    assert process.stdout is not None
    hits: list[Hit] = []
    for step in STEPS:
        some = some_hits(random.Random(step), 500)
        count(valkey, some)
        hits += some
        print(step, file=process.stdin, flush=True)
        assert process.stdout.readline() == f"{step} killed\n"
        assert in_postgres() + in_redis(valkey) == expected(hits), step
        drain(valkey)
        assert in_postgres() == expected(hits), step
        assert not in_redis(valkey), step
    assert finish(process) == []


def test_two_lines_of_drains_die_at_random_under_load(valkey: redis.Redis, start: Start) -> None:
    check_storm(valkey, start, random.Random(2), kills=6)


@pytest.mark.sweep
def test_two_lines_of_drains_die_many_times_under_load(valkey: redis.Redis, start: Start) -> None:
    check_storm(valkey, start, random.Random(2), kills=12)


@pytest.mark.faults_long
def test_two_hundred_kills_under_load(valkey: redis.Redis, start: Start) -> None:
    check_storm(valkey, start, random.Random(3), kills=200)


def check_storm(valkey: redis.Redis, start: Start, chance: random.Random, *, kills: int) -> None:
    """Two processes drain against each other, most of their drains die, and counting goes on meanwhile."""
    plans = [[chance.choice((*STEPS, "-")) for _ in range(kills // 2)] for _ in range(2)]
    processes = [start(plan) for plan in plans]
    hits: list[Hit] = []
    while any(process.poll() is None for process in processes):
        some = some_hits(chance, 200)
        count(valkey, some)
        hits += some
    killed = sum(line.endswith("killed") for process in processes for line in finish(process))
    assert killed >= kills // 2
    assert in_postgres() + in_redis(valkey) == expected(hits)
    drain(valkey)
    drain(valkey)  # the first one may only have finished a batch that was waiting
    fold_all()
    for model in ROLLUPS:
        assert in_postgres(model) == expected(hits)
    assert not in_redis(valkey)


def test_arrivals_of_a_killed_drain_are_kept_once(valkey: redis.Redis, start: Start) -> None:
    now_us = valkey.time()[0] * 1_000_000
    count(valkey, [Hit(64)])
    valkey.rpush("hr:{0}:a", *[f"0001s001 00000000000000ff {now_us + i} 3 a" for i in range(100)])
    finish(start(["added", "committed", "committed"]))
    drain(valkey)
    assert Arrival.objects.count() == 100
