"""F21 to F24: workers and their children killed and stopped, a broker that drops everybody, two beats, poison."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis

from quotas.models import Delivery, JobSlot
from quotas.models.jobs import delivery_note, slot_done, slot_take
from quotas.usage.drain import drain
from tests.config.canary import write
from tests.config.workers import Workers, end, eventually
from tests.faults.proxy import Proxy
from tests.quotas.usage.counters import Hit, count, expected, in_postgres, in_redis

pytestmark = pytest.mark.django_db(transaction=True)


def some_hits(seed: int) -> list[Hit]:
    chance = random.Random(seed)
    return [Hit(chance.randint(1, 100), outcome=chance.choice("ad")) for _ in range(300)]


def check_drained(valkey: redis.Redis, hits: list[Hit]) -> None:
    drain(valkey)
    assert in_postgres() == expected(hits)
    assert not in_redis(valkey)


@pytest.mark.parametrize("step", ["read", pytest.param("added", marks=pytest.mark.sweep)])
def test_a_drain_goes_on_when_its_child_and_then_its_parent_was_killed(
    workers: Workers, valkey: redis.Redis, step: str
) -> None:
    hits = some_hits(1)
    count(valkey, hits)
    first = workers.worker()
    workers.send("canary.drain", "SIGKILL", step)
    eventually(lambda: "drained" in workers.lines())
    more = some_hits(2)
    count(valkey, more)
    workers.send("canary.drain", "SIGSTOP", step)
    eventually(lambda: len(workers.lines()) == 3)
    end(first)
    workers.worker()
    eventually(lambda: workers.lines().count("drained") == 2)
    check_drained(valkey, hits + more)


def test_a_drain_that_stood_still_past_the_time_out_adds_nothing_twice(workers: Workers, valkey: redis.Redis) -> None:
    hits = some_hits(3)
    count(valkey, hits)
    workers.worker()
    workers.send("canary.drain", "SIGSTOP", "read")
    eventually(workers.lines)
    child = int(workers.lines()[0].split()[0])
    workers.worker()
    eventually(lambda: "drained" in workers.lines())
    os.kill(child, signal.SIGCONT)
    eventually(lambda: workers.lines().count("drained") == 2)
    check_drained(valkey, hits)


def test_a_task_that_always_dies_is_set_aside_after_three_times(workers: Workers) -> None:
    workers.worker()
    workers.send("canary.die")
    workers.send("canary.mark", "alive")
    eventually(lambda: Delivery.objects.filter(is_set_aside=True).exists())
    eventually(lambda: "alive" in workers.lines())
    # A task that takes long is given out once more, on a busy machine even one that writes a line.
    assert workers.lines().count("died") == 3
    assert Delivery.objects.get().job == "canary.die"


def test_two_beats_have_one_effect_a_slot(workers: Workers, valkey: redis.Redis) -> None:
    workers.worker()
    workers.beat("one")
    workers.beat("two")
    eventually(lambda: len(workers.lines()) >= 5)
    slots = Counter(workers.lines())
    assert set(slots.values()) == {1}
    # The last line was written before its slot was done.
    eventually(lambda: JobSlot.objects.get(job="canary.tick").is_done)


@contextmanager
def resetting(workers: Workers) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", workers.port) as wire:
        workers.worker(broker_port=wire.port)
        yield wire


def check_resets(workers: Workers, resets: int) -> float:
    with resetting(workers) as wire:
        workers.send("canary.mark", "before")
        eventually(lambda: "before" in workers.lines())
        for _ in range(resets):
            wire.reset()
            wire.heal()
            eventually(lambda: wire.connections > 0)
        workers.send("canary.mark", "after")
        return eventually(lambda: "after" in workers.lines())


def test_a_canary_comes_through_after_the_broker_dropped_everybody(workers: Workers) -> None:
    check_resets(workers, 3)


@pytest.mark.faults_long
def test_a_canary_comes_through_after_fifty_resets(workers: Workers, figures: Callable[[str], None]) -> None:
    took = check_resets(workers, 50)
    figures(f"50 resets, the canary came {took:.1f} s after them")


def test_a_worker_that_cannot_acknowledge_takes_the_next_task(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What looks for overdue messages would use the connection before the acknowledgement does.
    monkeypatch.setenv("CANARY_RESTORE_SECONDS", "3600")
    with resetting(workers) as wire:
        workers.send("canary.hold", "go")
        eventually(lambda: "held" in workers.lines())
        wire.reset()
        before = wire.dialled
        write(str(workers.file), "go")
        eventually(lambda: wire.dialled > before + 3)  # more often than for the acknowledgement alone
        wire.heal()
        workers.send("canary.mark", "after")
        eventually(lambda: "after" in workers.lines())


def test_a_slot_is_taken_once_and_kept_by_whoever_has_it() -> None:
    assert slot_take(job="drain", slot=7, task_id="a")
    assert not slot_take(job="drain", slot=7, task_id="b")
    assert not slot_take(job="drain", slot=6, task_id="c")
    assert slot_take(job="drain", slot=7, task_id="a")
    slot_done(job="drain", slot=7)
    assert not slot_take(job="drain", slot=7, task_id="a")
    assert slot_take(job="drain", slot=8, task_id="b")


def test_a_task_is_delivered_three_times_at_most() -> None:
    assert [delivery_note(job="x", task_id="a") for _ in range(3)] == [True, True, False]
    assert Delivery.objects.get().is_set_aside
