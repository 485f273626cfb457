"""Plans with their state, and every call that one may make of them, for the tests of slots that move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from headroom_edge import keys
from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.bucket import LeakyBucket, TokenBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Generation, Limit, Tenant
from tests.headroom_edge.lua.leases import lease, spent
from tests.headroom_edge.lua.moving import Call
from tests.headroom_edge.lua.world import NOW_US, TENANT, TIER, World, tier_policy

ENDPOINT = "rides:search"
HOUR_US = 3_600 * SECOND_US
SHARD = keys.shard_of(TENANT)
PREFIX = keys.shard_prefix(SHARD)
LATER_US = NOW_US + 2 * SECOND_US


def neighbour(word: str) -> str:
    """A tenant of the same shard."""
    return next(name for number in count() if keys.shard_of(name := f"{word}{number}") == SHARD)


SUSPENDED, STRANGER, NEW = neighbour("suspended"), neighbour("stranger"), neighbour("new")
TENANTS = {
    TENANT: Tenant(1, TENANT, TIER),
    SUSPENDED: Tenant(2, SUSPENDED, TIER, suspended=True),
}
KNOWN, FULL, UNSEEN = ("key", "k_known"), ("key", "k_full"), ("key", "k_new")


@dataclass(frozen=True)
class Scenario:
    limits: tuple[Limit, ...]
    prepare: Callable[[World], dict[str, Call]]
    # Calls that work where the whole slot is, although it moves: all of their keys exist.
    served: frozenset[str] = frozenset()
    settings: dict[str, Any] = field(default_factory=dict)

    def set_up(self, world: World) -> dict[str, Call]:
        """All calls by name; the same on every run."""
        world.tenants = TENANTS
        # With so few new subjects an hour, what counts them lives as long as the test.
        world.settings = {"sample_per_1024": 1_024, "subject_cap": 10, **self.settings}
        world.configure(tier_policy(*self.limits))
        return self.prepare(world)


def per_key(name: str, algorithm: Algorithm, **fields: Any) -> Limit:
    return Limit(name, algorithm, Subject.parse("key"), **fields)


def whole(name: str, algorithm: Algorithm, **fields: Any) -> Limit:
    return Limit(name, algorithm, Subject.parse("tenant"), **fields)


def bucket(size: int = 100) -> TokenBucket:
    return TokenBucket(size, HOUR_US, size)


def check(*subject: str, cost: int = 1, rows: bool = False, function: str = "check", tenant: str = TENANT) -> Call:
    return Call(function, (tenant, ENDPOINT, cost, *(("ALL",) if rows else ()), *subject), LATER_US)


def checks(*holder: str) -> dict[str, Call]:
    return {
        "check known": check(*KNOWN, *holder),
        "check known, all rows": check(*KNOWN, *holder, rows=True),
        "check full": check(*FULL, *holder),
        "check cost too big": check(*KNOWN, *holder, cost=100_000),
        "check new": check(*UNSEEN, *holder),
        "peek known": check(*KNOWN, *holder, function="peek"),
        "peek full": check(*FULL, *holder, function="peek"),
        "check suspended": check(tenant=SUSPENDED),
        "check stranger": check(tenant=STRANGER),
        "lease known": Call("lease", (TENANT, ENDPOINT, 1, 50, 50, 100, 0, 0, 0, 0, "", *KNOWN, *holder), LATER_US),
        "lease full": Call("lease", (TENANT, ENDPOINT, 1, 50, 50, 100, 0, 0, 0, 0, "", *FULL, *holder), LATER_US),
        "reset all": Call("reset", (TENANT, ENDPOINT, "*", *KNOWN), LATER_US),
        "profile": Call("profile", (TENANT, ENDPOINT), LATER_US),
        "report": Call("report", (TENANT, ENDPOINT, "g", 3, 5), LATER_US),
    }


DECIDED = frozenset({"check known", "check known, all rows", "check full", "check cost too big", "peek known"})
ALWAYS_SERVED = DECIDED | {"peek full", "check suspended", "check stranger", "profile", "report"}


def _use(world: World, *holder: str) -> str:
    """Both subjects have records, and one has used up its limits. Returns the receipt of a decision."""
    holders: dict[str, Any] = dict(zip(holder[::2], holder[1::2], strict=True))
    receipt = world.check(rows=True, key=KNOWN[1], **holders).receipt
    for _ in range(40):
        if not world.check(key=FULL[1], **holders).allowed:
            break
    return receipt


def _delta(world: World) -> Call:
    token = _text(world.client.get(PREFIX)).partition("+")[0]
    entry = _text(world.client.hget(keys.tenants(SHARD), TENANT))
    return Call("publish", ("DELTA", token, "8.delta", 1, NEW, f"00009{entry[5:]}", 0, 1, "x", "{}", 0))


def _stage(world: World, version: str) -> list[Call]:
    found: Any = world.client
    parts = (("t", keys.tenants(SHARD)), ("c", keys.config(SHARD)))
    pairs = {part: [word for pair in found.hgetall(key).items() for word in pair] for part, key in parts}
    flip = ("FLIP", version, "9.flip", len(pairs["t"]) // 2, len(pairs["c"]) // 2)
    stages = [Call("publish", ("STAGE", version, part, *words)) for part, words in pairs.items()]
    return [*stages, Call("publish", flip)]


def _text(raw: Any) -> str:
    return raw.decode() if isinstance(raw, bytes) else str(raw)


def _run(world: World, call: Call) -> Any:
    return world.call(call.function, call.now_us, SHARD, *call.words)


def _switch(scope: str, name: str) -> str:
    return f'[{{"scope": "{scope}", "name": "{name}", "until_us": {NOW_US + HOUR_US}, "reason": "test"}}]'


def _with_publications(world: World) -> dict[str, Call]:
    """Several limits, a staged shard, counters to drain, a bypass that has ended."""
    receipt = _use(world)
    _run(world, Call("bypass", (_switch("tenant", TENANT),)))
    _run(world, Call("bypass", ("",)))
    for call in (staged := _stage(world, "v1"))[:2]:
        _run(world, call)
    return {
        **checks(),
        "refund": Call("refund", (TENANT, ENDPOINT, receipt, *KNOWN), LATER_US),
        "delta": _delta(world),
        "delta on another base": Call("publish", ("DELTA", "1.other", "8.delta", 0, 0, 0, 0)),
        "stage more": staged[0],
        "stage anew": _stage(world, "v2")[0],
        "flip": staged[2],
        "flip what is not staged": _stage(world, "v2")[2],
        "bypass": Call("bypass", (_switch("tenant", TENANT),)),
        "end bypass": Call("bypass", ("",)),
        "drain take": Call("drain", ("TAKE", "batch-1"), LATER_US),
        "drain done": Call("drain", ("DONE", "batch-0"), LATER_US),
        "calendars take": Call("calendars", ("TAKE", "batch-1")),
        "calendars read": Call("calendars", ("READ", "batch-0", "0")),
        "calendars done": Call("calendars", ("DONE", "batch-0")),
        "calendars begin": Call("calendars", ("BEGIN", "v1")),
        "calendars put": Call("calendars", ("PUT", "v1", ":00001/key:k_lost", 60_000, 1, 1, 1, 1, 1)),
    }


def _with_batches(world: World) -> dict[str, Call]:
    """Calendar quotas, with batches that wait and touched records since; counters that are being restored."""
    receipt = _use(world)
    for call in (Call("drain", ("TAKE", "batch-1")), Call("calendars", ("TAKE", "batch-1"))):
        _run(world, call)
    _use(world)
    _run(world, Call("calendars", ("BEGIN", "v1")))
    return {
        **checks(),
        "refund": Call("refund", (TENANT, ENDPOINT, receipt, *KNOWN), LATER_US),
        "drain take": Call("drain", ("TAKE", "batch-2"), LATER_US),
        "drain done": Call("drain", ("DONE", "batch-1"), LATER_US),
        "drain done twice": Call("drain", ("DONE", "batch-0"), LATER_US),
        "calendars take": Call("calendars", ("TAKE", "batch-2")),
        "calendars read": Call("calendars", ("READ", "batch-1", "0")),
        "calendars done": Call("calendars", ("DONE", "batch-1")),
        "calendars done twice": Call("calendars", ("DONE", "batch-0")),
        "calendars begin": Call("calendars", ("BEGIN", "v1")),
        "calendars put": Call("calendars", ("PUT", "v1", ":00001/key:k_lost", 60_000, 1, 1, 1, 1, 1)),
        "delta": _delta(world),
    }


def _with_rings(world: World) -> dict[str, Call]:
    receipt = _use(world)
    return {**checks(), "refund": Call("refund", (TENANT, ENDPOINT, receipt, *KNOWN), LATER_US)}


def _with_holders(world: World) -> dict[str, Call]:
    """One holder has a slot; the other subject's slots are taken, or long over."""
    _use(world, "holder", "h-1")
    for number in range(3):
        world.check(key=FULL[1], holder=f"h-{number}")
    world.check(key="k_over", holder="h-1")
    over = Call("check", (TENANT, ENDPOINT, 1, "key", "k_over", "holder", "h-2"), NOW_US + HOUR_US // 2)
    return {
        **checks("holder", "h-9"),
        "check after the holds": over,
        "release": Call("release", (TENANT, ENDPOINT, "h-1", *KNOWN), LATER_US),
        "release what is not held": Call("release", (TENANT, ENDPOINT, "h-7", *KNOWN), LATER_US),
        "release of a new subject": Call("release", (TENANT, ENDPOINT, "h-7", *UNSEEN), LATER_US),
    }


def _with_samples(world: World) -> dict[str, Call]:
    """As with holders. A release with a result changes the record as well."""
    _use(world, "holder", "h-1")
    for number in range(3):
        world.check(key=FULL[1], holder=f"h-{number}")
    for result in ("ok", "drop"):
        world.check(key=KNOWN[1], holder="h-2")
        _run(world, Call("release", (TENANT, ENDPOINT, "h-2", result, *KNOWN), NOW_US + 1_000))
    return {
        **checks("holder", "h-9"),
        "release": Call("release", (TENANT, ENDPOINT, "h-1", *KNOWN), LATER_US),
        "release answered": Call("release", (TENANT, ENDPOINT, "h-1", "ok", *KNOWN), LATER_US),
        "release dropped": Call("release", (TENANT, ENDPOINT, "h-1", "drop", *KNOWN), LATER_US),
        "release what is not held": Call("release", (TENANT, ENDPOINT, "h-7", "ok", *KNOWN), LATER_US),
        "live": Call("live", (TENANT, ENDPOINT, *KNOWN), LATER_US),
        "live of a new subject": Call("live", (TENANT, ENDPOINT, *UNSEEN), LATER_US),
    }


def _with_switches(world: World) -> dict[str, Call]:
    _use(world)
    _run(world, Call("bypass", (_switch("tenant", TENANT),)))
    return checks()


def _with_leases(world: World) -> dict[str, Call]:
    _, block = lease(world, want=50, key=KNOWN[1])
    assert block.calls > 0
    _, other = lease(world, want=50, key=FULL[1])
    world.check(NOW_US, cost=240, key=FULL[1])
    words = spent(block, 3).words
    again = (TENANT, ENDPOINT, 1, 50, 50, 100, *words, *KNOWN)
    # As if the block had been leased before this tenant was suspended.
    *amounts, receipt = spent(other, 1).words
    gone = (SUSPENDED, ENDPOINT, *amounts, str(receipt).replace(":00001:", ":00002:"))
    return {
        **checks(),
        "lease and settle": Call("lease", again, NOW_US + 50_000),
        "return": Call("return", (TENANT, ENDPOINT, *words, *KNOWN), NOW_US + 50_000),
        "return of a suspended tenant": Call("return", gone, NOW_US + 50_000),
        "refund": Call("refund", (TENANT, ENDPOINT, "1:00:1", *KNOWN), LATER_US),
    }


def _with_old_records(world: World) -> dict[str, Call]:
    """The records were written under another plan, so their use is carried over, from rings as well."""
    _use(world)
    world.configure(tier_policy(*(per_key("log", SlidingLog(30, HOUR_US)), whole("all", bucket(200)))))
    return checks()


def _with_replaced_limit(world: World) -> dict[str, Call]:
    """The endpoint has a limit of its own instead of the tier's log, whose use it must carry over in their record."""
    before, own = SlidingLog(5, HOUR_US), tier_policy(per_key("log", bucket(9)), endpoint=ENDPOINT)
    world.configure(tier_policy(per_key("log", before), per_key("a", bucket(20))), own)
    for endpoint in ("rides:book", "rides:book", ENDPOINT):
        world.check(endpoint=endpoint, key=KNOWN[1])
    after = per_key("log", SlidingLog(30, HOUR_US), since_us=NOW_US + 1, past=(Generation(before),))
    world.configure(tier_policy(after, per_key("a", bucket(20))), own)
    return checks()


def with_all(world: World) -> dict[str, Call]:
    """Any plan, used by two subjects, staged anew, and with counters to drain."""
    receipt = _use(world, "holder", "h-1")
    for call in (staged := _stage(world, "v1"))[:2]:
        _run(world, call)
    return {
        **checks("holder", "h-9"),
        "refund": Call("refund", (TENANT, ENDPOINT, receipt, *KNOWN), LATER_US),
        "release": Call("release", (TENANT, ENDPOINT, "h-1", *KNOWN), LATER_US),
        "delta": _delta(world),
        "flip": staged[2],
        "bypass": Call("bypass", (_switch("tenant", TENANT),)),
        "drain take": Call("drain", ("TAKE", "batch-1"), LATER_US),
        "calendars take": Call("calendars", ("TAKE", "batch-1")),
    }


SCENARIOS = {
    "one bucket": Scenario((per_key("a", bucket(5)),), _with_rings, ALWAYS_SERVED),
    "several limits": Scenario(
        (
            whole("all", bucket()),
            whole("hour", FixedWindow(90, HOUR_US)),
            per_key("a", bucket(5)),
            per_key("count", SlidingCounter(6, HOUR_US)),
        ),
        _with_publications,
        ALWAYS_SERVED | {"delta", "delta on another base", "flip", "bypass", "end bypass"},
    ),
    "calendar quota": Scenario(
        (per_key("month", CalendarQuota(5, "month", "UTC", "1")), whole("all", bucket())),
        _with_batches,
        ALWAYS_SERVED | {"delta", "drain take", "drain done", "calendars take", "calendars read", "calendars done"},
    ),
    "sliding log": Scenario(
        (per_key("log", SlidingLog(5, HOUR_US)), whole("logs", SlidingLog(50, HOUR_US)), per_key("a", bucket(20))),
        _with_rings,
        ALWAYS_SERVED,
    ),
    "concurrency": Scenario(
        (per_key("slots", Concurrency(2, 60 * SECOND_US)), per_key("a", bucket(20)), whole("all", bucket())),
        _with_holders,
        ALWAYS_SERVED | {"release", "check after the holds"},
    ),
    "adaptive concurrency": Scenario(
        (
            per_key("slots", AdaptiveConcurrency(2, 9, 2, SECOND_US, 60 * SECOND_US)),
            per_key("a", bucket(20)),
            whole("db", AdaptiveConcurrency(5, 50, 20, SECOND_US, 60 * SECOND_US)),
        ),
        _with_samples,
        ALWAYS_SERVED | {"release", "release answered", "release dropped", "live"},
    ),
    "shadow and candidates": Scenario(
        (
            per_key("live", bucket(3), candidate=bucket(6)),
            per_key("tried", SlidingLog(4, HOUR_US), mode="shadow"),
            per_key("log", SlidingLog(9, HOUR_US), candidate=SlidingLog(4, HOUR_US)),
        ),
        _with_rings,
        ALWAYS_SERVED,
    ),
    "a pool and its members": Scenario(
        (
            whole("org", Pool(5, HOUR_US, 20, 10)),
            # Its ceiling denies: what a lender remembers of other denials would change when they may come again.
            per_key("team", Borrowing(3, HOUR_US, 3, 3, 3, 0, "org")),
            whole("all", bucket()),
        ),
        _with_rings,
        ALWAYS_SERVED,
    ),
    "leaky bucket": Scenario((per_key("a", LeakyBucket(5, HOUR_US, 5)),), _with_rings, ALWAYS_SERVED),
    "bypass": Scenario((per_key("a", bucket(5)),), _with_switches, ALWAYS_SERVED),
    "leases": Scenario(
        (
            per_key("a", bucket(300)),
            whole("log", SlidingLog(2_000, HOUR_US)),
            whole("month", CalendarQuota(100_000, "month", "UTC", "1")),
        ),
        _with_leases,
        frozenset({"check known", "peek known", "lease known", "check suspended", "check stranger", "profile"}),
        {"sample_per_1024": 0},
    ),
    "a replaced log": Scenario((), _with_replaced_limit, frozenset({"check known", "peek known"})),
    "records of another plan": Scenario(
        (per_key("log", SlidingLog(5, HOUR_US)), whole("all", bucket())),
        _with_old_records,
        frozenset({"check known", "peek known"}),
    ),
}
