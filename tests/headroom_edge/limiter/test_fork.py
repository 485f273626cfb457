"""Servers fork their workers after loading the application, limiter and all."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

import redis

from headroom_edge import Check, Limiter
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish

CHECKS = 200


def own_replies(limiter: Limiter, name: str) -> int:
    """How many of our checks came back with our own name on them."""
    checks = [Check(TENANT, ENDPOINT, holder=f"{name}-{number}") for number in range(CHECKS)]
    decisions = [limiter.check_many([check])[0] for check in checks]
    return sum(decision.holder == decision.check.holder and not decision.degraded for decision in decisions)


def in_child(limiter: Limiter, name: str, answer: Connection) -> None:
    answer.send((own_replies(limiter, name), limiter._core.chores.heartbeat.enforcer))


def test_a_forked_child_uses_connections_of_its_own(valkey: redis.Redis, valkey_url: str) -> None:
    publish(valkey, configuration(limit("slots", "concurrency", limit=1_000_000, hold="1m")))
    fork = multiprocessing.get_context("fork")
    with Limiter.from_url(valkey_url, budget_ms=60_000) as limiter:
        assert own_replies(limiter, "before") == CHECKS
        ends = [fork.Pipe(duplex=False) for _ in range(2)]
        children = [
            fork.Process(target=in_child, args=(limiter, f"child-{number}", sender))
            for number, (_, sender) in enumerate(ends)
        ]
        for child in children:
            child.start()
        assert own_replies(limiter, "parent") == CHECKS
        answers = [receiver.recv() for receiver, _ in ends]
        for child in children:
            child.join()
        assert [count for count, _ in answers] == [CHECKS, CHECKS]
        assert len({limiter._core.chores.heartbeat.enforcer, *(enforcer for _, enforcer in answers)}) == 3
