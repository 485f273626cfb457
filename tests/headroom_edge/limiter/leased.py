"""Limiters with leases in the tests: a clock that stands still, and what the store has counted."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import redis

from headroom_edge import Decision, keys
from headroom_edge.leases.block import Block
from headroom_edge.leases.book import LeaseBook
from headroom_edge.leases.decision import LeasedDecision
from tests.headroom_edge.limiter.both import Either
from tests.headroom_edge.limiter.world import ENDPOINT, OTHER_TENANT, TENANT

FIRST_ASK = 16  # eight requests until the plan is asked for, and eight of the lease key
TENANT_AT = len("s00000000")  # after the second; then come the endpoint and the outcome
OUTCOME_AT = TENANT_AT + len("00000" + "000")
NUMBERS = {TENANT: keys.tenant_number(1), OTHER_TENANT: keys.tenant_number(2)}


class Clock:
    """The clock of a limiter's leases. The store's own goes on, so blocks end there in their own time."""

    def __init__(self, limiter: Either) -> None:
        self.now = 1_000.0
        for book in limiter.core.books:
            book._clock = lambda: self.now


def book_of(limiter: Either) -> LeaseBook:
    book = limiter.core.leases
    assert book is not None
    return book


def ask(limiter: Either, count: int, **about: Any) -> list[Decision]:
    return [limiter.check(**{"tenant": TENANT, "endpoint": ENDPOINT, **about}) for _ in range(count)]


def with_block(limiter: Either, **about: Any) -> Block:
    """Asks until there is a block."""
    ask(limiter, FIRST_ASK, **about)
    return block_of(limiter)


def block_of(limiter: Either) -> Block:
    (lease,) = book_of(limiter)._open
    assert lease.block is not None
    return lease.block


def leased(decisions: list[Decision]) -> int:
    return sum(isinstance(decision, LeasedDecision) for decision in decisions)


def usage(store: redis.Redis, tenant: str = TENANT) -> Counter[str]:
    """Requests by outcome: a allowed, d denied, g let through without the store."""
    return _sums(store, tenant, lambda value: value % 2**24)


def cost_used(store: redis.Redis, tenant: str = TENANT) -> Counter[str]:
    return _sums(store, tenant, lambda value: value // 2**24)


def _sums(store: redis.Redis, tenant: str, part: Any) -> Counter[str]:
    fields = cast("dict[bytes, bytes]", store.hgetall(keys.usage(keys.shard_of(tenant))))
    found: Counter[str] = Counter()
    for field, value in fields.items():
        if field[TENANT_AT : TENANT_AT + 5] == NUMBERS[tenant].encode():
            found[field.decode()[OUTCOME_AT]] += part(int(value))
    return found
