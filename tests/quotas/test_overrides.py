from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import pytest
from django.utils import timezone

from quotas.changes.commit import Proposed, Written, commit
from quotas.errors import Refused
from quotas.models import Override
from quotas.overrides import STATES, override_cancel, override_create, override_state, overrides_in
from tests.quotas.world import FORCED, GET, PAY, SAID, newest, waiting

pytestmark = pytest.mark.usefixtures("world")


def hours(count: float) -> datetime:
    return timezone.now() + timedelta(hours=count)


def test_it_is_created() -> None:
    row = override_create(tenant="acme", endpoint=PAY, end=hours(1), limits={"burst": {"rate": 5}}, **FORCED)
    state = newest().after[f"override:{row.pk}"]
    assert state is not None
    assert (state["tenant"], state["endpoint"], state["limits"]) == ("acme", PAY, {"burst": {"rate": 5}})
    assert (row.author, row.reason) == ("ann", "because")
    assert waiting() == ["tenant:acme"]


def test_a_dry_run_uses_up_no_number_and_foresees_what_is_written() -> None:
    first = override_create(tenant="acme", multiplier=(92, 100), **SAID)
    give = partial(override_create, tenant="acme", multiplier=(85, 100), start=hours(1), end=hours(2), **FORCED)
    foreseen = commit(give, "dry_run")
    written = commit(give)
    assert isinstance(written, Written)
    assert written.result.pk == first.pk + 1
    assert foreseen.effect == written.effect
    assert foreseen.impact == written.impact
    assert written.impact.needs_force


def test_a_proposed_one_keeps_its_number_to_itself() -> None:
    proposed = commit(partial(override_create, tenant="acme", multiplier=(2, 1), **SAID), "propose")
    assert isinstance(proposed, Proposed)
    row = override_create(tenant="acme", multiplier=(2, 1), **SAID)
    assert f"override:{row.pk}" not in proposed.proposal.touched


def test_a_fraction_is_kept_in_lowest_terms() -> None:
    row = override_create(tenant="acme", multiplier=(150, 100), **FORCED)
    assert (row.multiplier_numerator, row.multiplier_denominator) == (3, 2)


def test_cancelled_it_is_over() -> None:
    row = override_create(tenant="acme", multiplier=(2, 1), **FORCED)
    override_cancel(override=row.pk, **FORCED)
    assert newest().after == {f"override:{row.pk}": None}
    with pytest.raises(Refused, match="has already ended"):
        override_cancel(override=row.pk, **FORCED)


def test_one_that_has_ended_cannot_be_cancelled() -> None:
    row = override_create(tenant="acme", multiplier=(2, 1), end=hours(1), **FORCED)
    Override.objects.update(start=hours(-2), end=hours(-1))
    with pytest.raises(Refused, match="has already ended"):
        override_cancel(override=row.pk, **FORCED)


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: override_create(tenant="nobody", multiplier=(2, 1), **SAID), "there is no tenant nobody"),
    (lambda: override_create(tenant="acme", endpoint="a:b", multiplier=(2, 1), **SAID), "there is no endpoint a:b"),
    (lambda: override_create(tenant="acme", **SAID), "give one of the two"),
    (
        lambda: override_create(tenant="acme", multiplier=(2, 1), limits={"burst": {"rate": 1}}, **FORCED),
        "one of the two",
    ),
    (lambda: override_create(tenant="acme", multiplier=(0, 1), **SAID), "two whole numbers from 1 to 1,000,000"),
    (lambda: override_create(tenant="acme", multiplier=(1, 2_000_000), **SAID), "two whole numbers from 1"),
    (
        lambda: override_create(tenant="acme", multiplier=(2, 1), end=hours(-1), **FORCED),
        "end must be later than start",
    ),
    (
        lambda: override_create(tenant="acme", multiplier=(2, 1), start=hours(-2), end=hours(-1), **FORCED),
        "in the past",
    ),
    (lambda: override_create(tenant="acme", multiplier=(2, 1), end=datetime(2100, 1, 1), **SAID), "no time zone"),  # noqa: DTZ001
    (lambda: override_create(tenant="acme", limits={"Burst": {"rate": 1}}, **SAID), "limit's name cannot be 'Burst'"),
    (lambda: override_create(tenant="acme", limits={"burst": {}}, **SAID), "give the fields of burst that change"),
    (lambda: override_create(tenant="acme", limits={"burts": {"rate": 1}}, **SAID), "there is no limit burts on *"),
    (lambda: override_create(tenant="acme", limits={"burst": {"window": "1s"}}, **SAID), "window is not a field"),
    (lambda: override_create(tenant="acme", endpoint=GET, multiplier=(2, 1), **SAID), "has no limit of its own"),
    (lambda: override_cancel(override=999_999, **SAID), "there is no override 999999"),
]


@pytest.mark.parametrize(("attempt", "sentence"), REFUSALS)
def test_a_refusal_says_why_and_leaves_nothing_behind(attempt: Callable[[], object], sentence: str) -> None:
    before = newest().number
    with pytest.raises(Refused) as refused:
        attempt()
    assert sentence in str(refused.value)
    assert (newest().number, Override.objects.count()) == (before, 0)


def test_each_is_upcoming_then_active_then_ended_to_the_microsecond() -> None:
    start, tick = timezone.now() + timedelta(hours=1), timedelta(microseconds=1)
    end = start + timedelta(hours=1)
    row = override_create(tenant="acme", multiplier=(2, 1), start=start, end=end, **FORCED)
    moments = {start - tick: "upcoming", start: "active", end - tick: "active", end: "ended"}
    assert {moment: override_state(row, moment) for moment in moments} == moments
    for moment, state in moments.items():
        found = {one for one in STATES if Override.objects.filter(overrides_in(one, moment)).exists()}
        assert found == {state}


def test_one_that_is_cancelled_has_ended() -> None:
    row = override_create(tenant="acme", multiplier=(2, 1), **FORCED)
    assert override_state(row, timezone.now()) == "active"
    override_cancel(override=row.pk, **FORCED)
    row.refresh_from_db()
    assert override_state(row, timezone.now()) == "ended"


def test_a_rate_may_name_its_own_time_in_place_of_the_limits() -> None:
    row = override_create(tenant="acme", limits={"minute": {"rate": "4.2/10s"}}, **FORCED)
    assert row.limits == {"minute": {"rate": 4.2, "per": "10s"}}
    with pytest.raises(Refused, match="has its own time; remove per"):
        override_create(tenant="acme", limits={"minute": {"rate": "4.2/10s", "per": "1m"}}, **FORCED)
