"""The fast engine decides as the reference models do, arrival by arrival."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headroom_edge.algorithms.base import SECOND_US, Algorithm, State
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.plan.subject import TENANT, Subject
from quotas.observations.arrays import whole_numbers
from quotas.policies.limit_codec import limit_parse
from quotas.policies.spec import Limit
from quotas.simulation import fast_replay
from quotas.simulation.arrivals_csv import Arrival
from quotas.simulation.fast_replay import ArrivalBatch, FastReplay
from quotas.simulation.replay import replay
from tests.headroom_edge.algorithms.strategies import START_US, buckets, counters, fixed_windows, logs
from tests.sweeps import first_of

DAYS = tuple(START_US // SECOND_US + day * 86_400 for day in range(-1, 70))
days: st.SearchStrategy[Algorithm] = st.builds(
    lambda limit: CalendarQuota(limit, "day", "UTC", "").on(DAYS), st.integers(1, 30)
)
algorithms: st.SearchStrategy[Algorithm] = st.one_of(buckets, fixed_windows, logs, counters, days)
limits = st.lists(
    st.builds(
        lambda algorithm, dimension, unit, mode: (algorithm, dimension, unit, mode),
        algorithms,
        st.sampled_from(("tenant", "tenant", "key", "user")),
        st.sampled_from(("requests", "cost")),
        st.sampled_from(("enforce", "enforce", "enforce", "shadow", "off")),
    ),
    min_size=1,
    max_size=4,
).map(
    lambda rows: [
        Limit(f"limit-{n}", algorithm, Subject.parse(dimension), unit=unit, mode=mode)
        for n, (algorithm, dimension, unit, mode) in enumerate(rows)
    ]
)
gaps = st.sampled_from((0, 0, 0, 1, 333, 20_000, 333_333, SECOND_US, 30 * SECOND_US, 86_400 * SECOND_US))
arrivals = st.lists(st.tuples(gaps, st.integers(0, 3), st.sampled_from((1, 1, 1, 2, 5, 14))), max_size=60)


def batch_of(rows: list[tuple[int, int, int]]) -> ArrivalBatch:
    times = np.cumsum(whole_numbers([gap for gap, _, _ in rows])) + START_US
    return ArrivalBatch(times, whole_numbers([row[1] for row in rows]), whole_numbers([row[2] for row in rows]))


def by_reference(policy: list[Limit], batch: ArrivalBatch) -> list[tuple[int, int]]:
    places = {limit.name: place for place, limit in enumerate(policy)} | {"": fast_replay.ALLOWED}
    rows = zip(batch.times_us.tolist(), batch.subjects.tolist(), batch.costs.tolist(), strict=True)
    decided = replay(policy, (Arrival(t_us, str(subject), cost) for t_us, subject, cost in rows))
    return [(places[one.limit], one.wait_us) for one in decided]


def by_fast(engine: FastReplay, batch: ArrivalBatch) -> list[tuple[int, int]]:
    found = engine.decide(batch)
    return list(zip(found.denied_by.tolist(), found.wait_us.tolist(), strict=True))


@pytest.fixture(params=first_of([(3, 2), (1, 1), (256, 32)]))
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that their seams are tried too."""
    monkeypatch.setattr(fast_replay, "LEAST_BLOCK", request.param[0])
    monkeypatch.setattr(fast_replay, "FEWEST_SINGLES", request.param[1])


@pytest.mark.usefixtures("sizes")
def test_it_decides_as_the_reference_does() -> None:
    @settings(max_examples=300)
    @given(limits, arrivals, st.integers(0, 60))
    def agrees(policy: list[Limit], rows: list[tuple[int, int, int]], seam: int) -> None:
        batch, engine = batch_of(rows), FastReplay(policy)
        first, rest = batch.cut(0, seam), batch.cut(seam, len(batch))
        assert by_fast(engine, first) + by_fast(engine, rest) == by_reference(policy, batch)

    agrees()


FOUR = [
    limit_parse("burst", {"algorithm": "token_bucket", "rate": 50, "burst": 120, "subject": "key"}),
    limit_parse("minute", {"algorithm": "fixed_window", "limit": 4_000, "window": "1m"}),
    limit_parse("trailing", {"algorithm": "sliding_counter", "limit": 2_500, "window": "1m", "subject": "key"}),
    limit_parse("log", {"algorithm": "sliding_log", "limit": 300, "window": "1s"}),
]


@pytest.mark.parametrize("per_second", first_of([90, 30, 400]))
def test_long_runs_agree_whether_few_or_many_are_denied(per_second: int) -> None:
    draw = random.Random(per_second)
    rows = [(int(draw.expovariate(per_second) * SECOND_US), draw.randrange(2), 1) for _ in range(12_000)]
    batch = batch_of(rows)
    assert by_fast(FastReplay(FOUR), batch) == by_reference(FOUR, batch)


def test_state_that_makes_no_difference_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_replay, "FORGET_EVERY", 50)
    draw = random.Random(5)
    rows = [(draw.choice((0, 900, 40_000, 2 * SECOND_US)), draw.randrange(30), 1) for _ in range(2_000)]
    batch, engine = batch_of(rows), FastReplay(FOUR)
    found = [one for place in range(0, len(batch), 40) for one in by_fast(engine, batch.cut(place, place + 40))]
    assert found == by_reference(FOUR, batch)


def test_a_span_beyond_64_bits_is_taken_in_pieces() -> None:
    policy = [limit_parse("fast", {"algorithm": "token_bucket", "rate": 999_999_937, "per": "1s", "burst": 3})]
    rows = [(3_600 * SECOND_US if n % 9 == 0 else 0, 0, 1) for n in range(300)]
    batch = batch_of(rows)
    assert by_fast(FastReplay(policy), batch) == by_reference(policy, batch)


def test_what_it_cannot_replay_is_refused() -> None:
    with pytest.raises(ValueError, match="how long each request takes; leave it out"):
        FastReplay([limit_parse("slots", {"algorithm": "concurrency", "limit": 2, "hold": "1m"})])
    engine = FastReplay(FOUR)
    one = whole_numbers([1])
    with pytest.raises(ValueError, match="order of time"):
        engine.decide(ArrivalBatch(whole_numbers([5, 4]), whole_numbers([0, 0]), whole_numbers([1, 1])))
    engine.decide(ArrivalBatch(whole_numbers([9]), one, one))
    with pytest.raises(ValueError, match="order of time"):
        engine.decide(ArrivalBatch(whole_numbers([8]), one, one))
    with pytest.raises(ValueError, match="at least 1"):
        engine.decide(ArrivalBatch(whole_numbers([10]), one, whole_numbers([0])))


def by_hand(policy: list[Limit], scopes: list[frozenset[int] | None], batch: ArrivalBatch) -> list[bool]:
    """Every limit that applies is asked first; all are charged, or none."""
    assert batch.endpoints is not None
    states: dict[int, State | None] = {}
    found = []
    for now_us, cost, endpoint in zip(
        batch.times_us.tolist(), batch.costs.tolist(), batch.endpoints.tolist(), strict=True
    ):
        applying = [n for n, scope in enumerate(scopes) if scope is None or endpoint in scope]
        outcomes = {n: policy[n].algorithm.decide(states.get(n), now_us, cost) for n in applying}
        admitted = all(outcome.verdict.admitted for outcome in outcomes.values())
        states.update({n: one.charged if admitted else one.kept for n, one in outcomes.items()})
        found.append(admitted)
    return found


@pytest.mark.usefixtures("sizes")
def test_a_limit_counts_its_own_endpoints_alone() -> None:
    scopes = st.sampled_from((None, frozenset({0}), frozenset({1, 2}), frozenset[int]()))

    @settings(max_examples=200)
    @given(st.lists(st.tuples(algorithms, scopes), min_size=1, max_size=4), arrivals)
    def agrees(rules: list[tuple[Algorithm, frozenset[int] | None]], rows: list[tuple[int, int, int]]) -> None:
        policy = [Limit(f"l{n}", algorithm, TENANT, unit="cost") for n, (algorithm, _) in enumerate(rules)]
        plain, held = batch_of(rows), [scope for _, scope in rules]
        batch = ArrivalBatch(plain.times_us, plain.subjects, plain.costs, None, plain.subjects)
        found = FastReplay(policy, held).decide(batch).denied_by == fast_replay.ALLOWED
        assert found.tolist() == by_hand(policy, held, batch)

    agrees()


def test_an_arrival_may_stand_for_several_requests() -> None:
    policy = [limit_parse("few", {"algorithm": "fixed_window", "limit": 10, "window": "1m"})]
    three, times = whole_numbers([3, 3, 3, 3, 1]), np.arange(5) * SECOND_US + START_US
    batch = ArrivalBatch(times, whole_numbers([0] * 5), whole_numbers([1] * 5), three)
    assert FastReplay(policy).decide(batch).denied_by.tolist() == [-1, -1, -1, 0, -1]
