"""What an admin configures, as plain immutable values. The compiler's input; knows no database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Literal, NamedTuple, get_args

from headroom_edge.algorithms.base import Algorithm
from headroom_edge.plan import routes
from headroom_edge.plan.priority import USUAL, Priority
from headroom_edge.plan.subject import Subject
from quotas.policies.adapt import Adapt

Mode = Literal["enforce", "shadow", "off"]
OnFailure = Literal["open", "closed", "local"]
Unit = Literal["requests", "cost"]
Carry = Literal["keep", "proportional", "reset"]

CARRIES: tuple[Carry, ...] = get_args(Carry)
# What the database accepts. A new algorithm of headroom_edge.algorithms also needs a migration.
ALGORITHM_NAMES = (
    "token_bucket",
    "gcra",
    "leaky_bucket",
    "fixed_window",
    "sliding_log",
    "sliding_counter",
    "concurrency",
    "calendar_quota",
    "pool",
    "borrowing",
    "adaptive_concurrency",
)
METHODS = (*routes.METHODS, routes.ANY_METHOD)

EVERYWHERE = "*"
NAME_PATTERN = "[a-z0-9][a-z0-9_.-]{0,62}"  # of tiers, policies and limits
TENANT_PATTERN = "[a-z0-9][a-z0-9-]{0,62}"
ENDPOINT_PART = "[a-z0-9][a-z0-9_.-]*"  # each side of the colon
MOST_COST = 10**9  # of one request
PAST_GENERATIONS = 8  # of parameters that a limit remembers
USUAL_LEASE_MS = 100  # the longest lease, unless the limit says otherwise
LEASE_MS = (10, 1_000)  # the shortest and the longest that a limit may say
SAMPLE_PER_1024 = 16  # share of subjects whose arrivals are kept
CANARY_PARTS = 1_000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_us(moment: datetime) -> int:
    """Microseconds since the epoch, as Redis tells the time."""
    return (moment - EPOCH) // MICROSECOND


@dataclass(frozen=True, slots=True)
class Generation:
    """One set of parameters that a limit had, and since when (Redis time; 0: always)."""

    algorithm: Algorithm
    since_us: int = 0
    carry: Carry = "keep"  # how state moved to this generation from the one before


@dataclass(frozen=True, slots=True)
class Limit:
    name: str
    algorithm: Algorithm
    subject: Subject
    unit: Unit = "requests"
    mode: Mode = "enforce"
    on_failure: OnFailure = "open"
    lease_ms: int | None = None  # how long a process may lease from it; 0: never; None: USUAL_LEASE_MS
    adapt: Adapt | None = None  # how it follows the health of its endpoint
    since_us: int = 0  # when these parameters came into force
    carry: Carry = "keep"
    past: tuple[Generation, ...] = ()  # newest first; the parameters it had before
    candidate: Algorithm | None = None  # a recommendation in shadow, judged beside this limit
    adopts_candidate: bool = False  # its parameters were its candidate's, whose state they take over


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits attached to tier × endpoint, tier × *, tenant × endpoint, tenant × * or everyone (global).

    Exactly one of `tier`, `tenant` is set, or neither for a global policy. A global policy may name
    a whole service: `payments:*`.
    """

    name: str
    endpoint: str
    limits: tuple[Limit, ...]
    tier: str | None = None
    tenant: str | None = None
    problem: str = (
        ""  # why the stored limits cannot be read; `limits` is then empty, and plans that need it do not compile
    )
    canary: int | None = None  # the change that tries it out on a share of the tier's tenants

    @property
    def source(self) -> str:
        """Where a limit comes from, in words: `tier pro × payments:create`."""
        owner = f"tier {self.tier}" if self.tier else f"tenant {self.tenant}"
        if not self.tier and not self.tenant:
            owner = "global"
        trial = f" (canary of change {self.canary})" if self.canary is not None else ""
        return f"{owner} × {self.endpoint}{trial}"

    def limit(self, name: str) -> Limit | None:
        return next((limit for limit in self.limits if limit.name == name), None)


@dataclass(frozen=True, slots=True)
class Override:
    """Other limits for one tenant between two times. `end_us` None: until removed.

    `limits` has fields by limit name, which replace those of the limit. Instead of `limits`, `multiplier`
    scales every capacity and rate.
    """

    id: int
    tenant: str
    endpoint: str
    start_us: int
    end_us: int | None
    limits: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    multiplier: tuple[int, int] | None = None  # numerator, denominator: 3/2 is exact, 1.5 may not be
    carry: Carry = "keep"


@dataclass(frozen=True, slots=True)
class Canary:
    """Other policies for a share of a tier's tenants: those whose name's hash lies below the share.

    A larger share includes every tenant of a smaller one. `policies`, by endpoint, replace the tier's own; one
    without limits removes the tier's.
    """

    change: int  # part of the hash, so that the next canary has other tenants
    tier: str
    share: int  # of CANARY_PARTS
    policies: Mapping[str, Policy]

    def has(self, tenant: str) -> bool:
        digest = blake2b(f"{self.change}:{tenant}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % CANARY_PARTS < self.share


@dataclass(frozen=True, slots=True)
class Tier:
    number: int
    name: str
    priority: str = ""  # the highest of its tenants' requests; empty: the endpoint's


@dataclass(frozen=True, slots=True)
class Endpoint:
    number: int  # 1 and up; 0 is every endpoint that is not registered
    name: str
    default_cost: int = 1
    priority: Priority = USUAL
    target_us: int | None = None  # of adaptive limits whose target is calibrated; None: not measured yet

    @property
    def service(self) -> str:
        return self.name.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Tenant:
    number: int
    name: str
    tier: str
    suspended: bool = False
    timezone: str = "UTC"
    handovers: tuple["Handover", ...] = ()
    priority: str = ""  # the highest of its requests; empty: its tier's


@dataclass(frozen=True, slots=True)
class Handover:
    """A tenant's limit has a new source: the tenant moved to another tier, or lost a policy of its own.

    State belongs to (scope, limit name, subject) whatever the source, so the earlier parameters are kept; at most
    one handover for each scope and limit. `resolve` turns it into the limit's past.
    """

    scope: str
    limit: str
    since_us: int
    carry: Carry
    past: tuple[Generation, ...]  # the parameters until `since_us`, newest first


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that is enforced, at one revision."""

    revision: int
    tiers: Mapping[str, Tier]
    endpoints: Mapping[str, Endpoint]
    tenants: Mapping[str, Tenant]
    policies: tuple[Policy, ...]
    overrides: tuple[Override, ...]
    limit_numbers: Mapping[str, int]  # limit name → number, which never changes
    subject_cap: int = 10_000  # new subjects per tenant and hour
    sample_per_1024: int = SAMPLE_PER_1024
    usage_room: int = 20_000  # counters in one hash of a shard while nobody drains
    unknown_tenant: str | None = None  # whose limits unknown tenants share; None: deny them
    canaries: tuple[Canary, ...] = ()  # at most one for each tier


TURNS = 8  # the low bits of a fingerprint; the same parameters come at most five times in nine generations


class _Told(NamedTuple):
    algorithm: Algorithm
    turn: int


def repeat_tags(generations: Sequence[Generation]) -> tuple[int, ...]:
    """A tag per generation (newest first) that tells apart equal parameters, if a reset lies between them.

    0 for parameters that no earlier generation had.
    """
    told: list[_Told] = []
    oldest_first = tuple(reversed(generations))
    for index, generation in enumerate(oldest_first):
        same = [i for i in range(index) if told[i].algorithm == generation.algorithm]
        if not same:
            turn = 0
        elif any(later.carry == "reset" for later in oldest_first[same[-1] + 1 : index + 1]):
            turn = _free(generation.since_us, {told[i].turn for i in same})
        else:
            turn = told[same[-1]].turn
        told.append(_Told(generation.algorithm, turn))
    return tuple(one.turn for one in reversed(told))


def _free(since_us: int, taken: set[int]) -> int:
    """Depends on the time, so that it stays the same when earlier generations are dropped."""
    return next(turn for turn in ((since_us + step) % TURNS for step in range(TURNS)) if turn not in taken)
