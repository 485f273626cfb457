"""Where leases are in use, and what they cost in exactness.

A process that leases takes a block of requests from Redis, and decides them by itself until the block is used up or
its time is over. Enforcers report the endpoints on which they lease (headroom_edge.heartbeat), but not the tenants.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings

from headroom_edge.algorithms.base import counted
from quotas.policies.limit_codec import NEVER_LEASED
from quotas.policies.limit_words import milliseconds
from quotas.policies.resolve import Effective
from quotas.policies.spec import EVERYWHERE, USUAL_LEASE_MS, Limit
from quotas.publishing import store
from quotas.publishing.enforcers import Leasing, processes_read

PATIENCE_SECONDS = 0.2  # a page is shown without it rather than late


@dataclass(frozen=True, slots=True)
class LeaseUse:
    processes: int
    longest_ms: int  # how much later an edit arrives
    endpoints: tuple[str, ...]
    perhaps: int = 0  # further processes, which lease on more endpoints than they report

    @property
    def words(self) -> str:
        """`Leased by 3 processes`."""
        if not self.processes:
            return f"Perhaps leased by {counted(self.perhaps, 'process', 'processes')}"
        more = f", perhaps by {self.perhaps:,} more" if self.perhaps else ""
        return f"Leased by {counted(self.processes, 'process', 'processes')}{more}"

    @property
    def price(self) -> str:
        later = f"an edit arrives up to {milliseconds(self.longest_ms)} later"
        return f"{later}, and a process that dies may waste up to one block."


def leases_on(endpoint: str, limits: Iterable[Limit]) -> LeaseUse | None:
    """`limits`: all that apply to a tenant there. None: no lease is in use, or Redis does not answer."""
    allowed_ms = longest_lease_ms(limits)
    leasing = _leasing() if allowed_ms else []
    listed = [each for each in leasing if endpoint in each.endpoints]
    perhaps = [each for each in leasing if each.more and endpoint not in each.endpoints]
    if not listed and not perhaps:
        return None
    longest_ms = max(min(each.ms, allowed_ms) for each in (*listed, *perhaps))
    return LeaseUse(len(listed), longest_ms, (endpoint,), len(perhaps))


def leases_of(limits: Iterable[Effective]) -> LeaseUse | None:
    """`limits`: all of one tenant, on every scope. None: no lease is in use, or Redis does not answer."""
    held, leasing = tuple(limits), _leasing()
    endpoints = sorted({endpoint for each in leasing for endpoint in each.endpoints})
    allowed_ms = {endpoint: longest_lease_ms(_applied(held, endpoint)) for endpoint in endpoints}
    lasting = [[min(each.ms, allowed_ms[endpoint]) for endpoint in each.endpoints] for each in leasing]
    longest_ms = max((ms for each in lasting for ms in each), default=0)
    if not longest_ms:
        return None
    leased = tuple(endpoint for endpoint in endpoints if allowed_ms[endpoint])
    return LeaseUse(sum(any(each) for each in lasting), longest_ms, leased)


def longest_lease_ms(limits: Iterable[Limit]) -> int:
    """How long a lease may last if all these limits apply. 0: there is none."""
    applied = [limit for limit in limits if limit.mode != "off"]
    algorithms = [algorithm for limit in applied for algorithm in (limit.algorithm, limit.candidate) if algorithm]
    if any(algorithm.name in NEVER_LEASED for algorithm in algorithms):
        return 0
    said = (USUAL_LEASE_MS if limit.lease_ms is None else limit.lease_ms for limit in applied)
    return min(said, default=USUAL_LEASE_MS)


def _applied(limits: Iterable[Effective], endpoint: str) -> Iterable[Limit]:
    """A limit of the endpoint replaces the one on `*` of the same name; global limits add up."""
    service = f"{endpoint.partition(':')[0]}:*"
    here = [each for each in limits if each.scope in (endpoint, service, EVERYWHERE)]
    own = {each.limit.name for each in here if each.scope == endpoint and not each.is_global}
    return [e.limit for e in here if e.is_global or e.scope == endpoint or e.limit.name not in own]


def _leasing() -> list[Leasing]:
    """One for each process that is alive and leases."""
    try:
        with store.connect(settings.REDIS_URL, patience_seconds=PATIENCE_SECONDS) as client:
            return [each.leases for each in processes_read(client) if each.leases]
    except store.StoreError:
        return []
