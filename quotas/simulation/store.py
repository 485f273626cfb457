"""Scenarios and replay on the store's own Lua, in a throw-away server."""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from quotas.limiter.sandbox import BATCH, Call, Sandbox, Words
from quotas.policy.plans import month_start_us
from quotas.policy.spec import Configuration, Endpoint, Limit, Policy, Tenant, Tier
from quotas.simulation.arrivals import Arrival
from quotas.simulation.replay import Decided
from quotas.simulation.scenarios.model import BASE_US, ENDPOINT, TENANT, TIER, Ask, Reply, everywhere, limit_names
from quotas.simulation.scenarios.nesting import NEIGHBOUR

ENDPOINTS = (ENDPOINT, "orders:list", "orders:cancel")
NO_CAP = 10**9  # new subjects per tenant and hour


class StoreEngine:
    """The scenarios' engine on the store."""

    def __init__(self, sandbox: Sandbox, around_us: int = BASE_US) -> None:
        self._sandbox = sandbox
        self._around_us = around_us
        self._revision = 0
        self._numbers: dict[str, int] = {}  # stable, whatever comes and goes

    def configure(self, policies: tuple[Policy, ...], timezone: str = "UTC") -> None:
        self._revision += 1
        for name in limit_names(policies):
            self._numbers.setdefault(name, len(self._numbers) + 1)
        configuration = Configuration(
            self._revision,
            tiers={TIER: Tier(1, TIER)},
            endpoints={name: Endpoint(number, name) for number, name in enumerate(ENDPOINTS, start=1)},
            tenants={
                name: Tenant(number, name, TIER, timezone=timezone)
                for number, name in enumerate((TENANT, NEIGHBOUR), start=1)
            },
            policies=policies,
            overrides=(),
            limit_numbers=self._numbers,
            subject_cap=NO_CAP,
            sample_per_1024=0,
        )
        self._sandbox.publish(configuration, self._around_us)

    def ask(self, ask: Ask) -> list[Reply]:
        words: Words = (ask.endpoint, ask.cost, "ALL", *(word for pair in ask.subject.items() for word in pair))
        call = ("check", ask.t_us, ask.tenant, words)
        return [self._reply(reply) for reply in self._sandbox.call_all([call] * ask.count)]

    def _reply(self, reply: list[Any]) -> Reply:
        allowed, reason, name, _, remaining, _, retry_us, wait_us, *_ = reply
        rows = {row[0].decode(): row[4] for row in reply[12:]}
        return Reply(bool(allowed), reason.decode(), name.decode(), remaining, retry_us, wait_us, rows)


def replay(sandbox: Sandbox, limit: Limit, arrivals: Iterable[Arrival]) -> Iterator[Decided]:
    """One limit, whose subject is `key`, on the arrivals' subjects. Its calendar is published anew each month."""
    month_us = -1
    calls = _calls(arrivals)
    while batch := list(islice(calls, BATCH)):
        for month in _months(batch):
            first_us = month[0][1][1]
            if month_start_us(first_us) != month_us:
                month_us = month_start_us(first_us)
                StoreEngine(sandbox, first_us).configure(everywhere(limit))
            replies = sandbox.call_all([call for _, call in month])
            for (arrival, _), reply in zip(month, replies, strict=True):
                if arrival is not None:
                    yield _decided(arrival, reply)


def _calls(arrivals: Iterable[Arrival]) -> Iterator[tuple[Arrival | None, Call]]:
    """Checks, and the releases that fall due between them; releasing what was denied does nothing."""
    due: list[tuple[int, int, str]] = []
    for number, arrival in enumerate(arrivals):
        while due and due[0][0] <= arrival.t_us:
            due_us, holder, subject = heappop(due)
            yield None, ("release", due_us, TENANT, (ENDPOINT, holder, "key", subject))
        words = (ENDPOINT, arrival.cost, "key", arrival.subject, "holder", number)
        yield arrival, ("check", arrival.t_us, TENANT, words)
        if arrival.duration_us is not None:
            heappush(due, (arrival.t_us + arrival.duration_us, number, arrival.subject))


def _months(
    batch: list[tuple[Arrival | None, Call]],
) -> Iterator[list[tuple[Arrival | None, Call]]]:
    """The batch in pieces that each lie within one month."""
    first = 0
    for index, (_, call) in enumerate(batch):
        if month_start_us(call[1]) != month_start_us(batch[first][1][1]):
            yield batch[first:index]
            first = index
    yield batch[first:]


def _decided(arrival: Arrival, reply: list[Any]) -> Decided:
    allowed = bool(reply[0])
    return Decided(arrival, allowed, reply[7], "" if allowed else reply[2].decode())
