"""Limits that adapt: edits of the field, readings of the live value, the floor, and the pin."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from headroom_edge import keys
from headroom_edge.algorithms.base import ParameterError
from quotas.adaptive.limits import loop_name
from quotas.adaptive.pin import limit_pin, limit_unpin
from quotas.adaptive.queries import FRESH, adaptive_limits, adaptive_timeline, limits_at_floor
from quotas.adaptive.readings import KEPT, readings_take
from quotas.changes.undo import revision_revert
from quotas.errors import Refused, accepted
from quotas.matrix.edit import sheet_write
from quotas.matrix.sheet import read_sheet
from quotas.models import AdaptiveReading, Endpoint
from quotas.policies.apply import document_apply, document_export
from quotas.policies.document import read_document
from quotas.policies.edit import limit_set, policy_create
from quotas.policies.limit_codec import limit_parse
from quotas.tenants import tenant_create
from tests.quotas.world import FORCED, GET, SAID, bucket, limit_of, newest

ADAPT = {"floor": "30%", "ceiling": "100%", "slow": "300ms", "errors": "5%"}
NOW = timezone.now()


def adapting(**parts: str) -> dict[str, Any]:
    return bucket(1_000, "backend", adapt={**ADAPT, **parts})


@pytest.fixture
def policy(world: None) -> str:
    policy_create(name="backend", endpoint=GET, limits=[adapting()], **FORCED)
    return "backend"


@pytest.fixture
def store(valkey: redis.Redis, valkey_url: str, settings: Any) -> redis.Redis:
    settings.REDIS_URL = valkey_url
    return valkey


def say(store: redis.Redis, factor: float, mode: str = "drain", bad: float = 0.4, answers: float = 600) -> None:
    """What hr_observe keeps of the loop of the limit."""
    seconds: Any = store.time()
    state = {"f": factor, "mode": mode, "answers": answers, "bad": bad, "until_us": (seconds[0] + 10) * 1_000_000}
    store.hset(keys.loop_states(), loop_name(limit_of("backend", "backend")), json.dumps(state))


class TestTheField:
    def test_it_is_kept_with_its_usual_parts(self) -> None:
        limit = limit_parse("backend", {"algorithm": "gcra", "rate": 5, "adapt": {"slow": "2s"}})
        assert limit.adapt
        assert limit.adapt.describe() == {**ADAPT, "slow": "2s"}
        assert limit_parse("backend", {"algorithm": "gcra", "rate": 5, "adapt": limit.adapt.text}).adapt == limit.adapt

    @pytest.mark.parametrize(
        ("adapt", "sentence"),
        [
            ({}, "adapt.slow is missing; add how long an answer may take, such as 300ms"),
            (7, "adapt must be parts such as floor, slow and errors, not 7"),
            ("fast", "adapt must be text such as slow 300ms, floor 30%, errors 5%, not 'fast'"),
            ({**ADAPT, "flor": "1%"}, "adapt has no part 'flor'; use floor, ceiling, slow, errors, pin"),
            ({**ADAPT, "floor": 30}, "adapt.floor must be a share of at most 100%, such as 30% or 62.5%, not 30"),
            ({**ADAPT, "floor": "0.9%"}, "adapt.floor must be from 1% to 100%, not 0.9%"),
            (
                {**ADAPT, "floor": "101%"},
                "adapt.floor must be a share of at most 100%, such as 30% or 62.5%, not '101%'",
            ),
            ({**ADAPT, "ceiling": "20%"}, "adapt.ceiling must be from the floor of 30% to 100%"),
            ({**ADAPT, "slow": "0ms"}, "adapt.slow must be a duration from 1ms to 10m, not '0ms'"),
            ({**ADAPT, "slow": "11m"}, "adapt.slow must be a duration from 1ms to 10m, not '11m'"),
            ({**ADAPT, "errors": "0%"}, "adapt.errors must be from 0.1% to 99.9%, not 0%"),
            ({**ADAPT, "pin": "29.9%"}, "adapt.pin must be from floor to ceiling (30% to 100%), not 29.9%"),
        ],
    )
    def test_a_part_that_cannot_work_is_refused_with_one_sentence(self, adapt: Any, sentence: str) -> None:
        with pytest.raises(ParameterError) as refused:
            limit_parse("backend", {"algorithm": "gcra", "rate": 5, "adapt": adapt})
        assert str(refused.value) == sentence

    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            (
                {"algorithm": "fixed_window", "limit": 5, "window": "1m"},
                "adapt cannot be used with fixed_window; use token_bucket or gcra, or remove adapt",
            ),
            (
                {"algorithm": "token_bucket", "rate": 1, "per": "1d", "burst": 53},
                "burst × per is too large to adapt exactly; lower burst, shorten per, or remove adapt",
            ),
        ],
    )
    def test_a_limit_that_cannot_adapt_is_refused(self, fields: dict[str, Any], sentence: str) -> None:
        with pytest.raises(ParameterError) as refused:
            limit_parse("backend", {**fields, "adapt": ADAPT})
        assert str(refused.value) == sentence

    @pytest.mark.usefixtures("world")
    @pytest.mark.parametrize("endpoint", ["*", "rides:*"])
    def test_it_needs_one_endpoint(self, endpoint: str) -> None:
        with pytest.raises(Refused, match="follows the health of one endpoint"):
            policy_create(name="backend", endpoint=endpoint, limits=[adapting()], **FORCED)

    def test_an_endpoint_has_at_most_32_different_ways_to_adapt(self, world: None) -> None:
        """Each costs the store time in every report of answers. Equal ones count once, and a pinned limit has none."""
        for number in range(3):
            tenant_create(name=f"many-{number}", tier="pro", **SAID)
        many = [
            adapting(slow=f"{100 * 2 ** (n % 8)}ms", errors=f"{n // 8 + 1}%") | {"name": f"n{n}"} for n in range(32)
        ]
        policy_create(name="many", tenant="many-0", endpoint=GET, limits=many[:16], **FORCED)
        policy_create(name="more", tenant="many-1", endpoint=GET, limits=many[16:], **FORCED)
        policy_create(name="again", tenant="many-2", endpoint=GET, limits=many[:5], **FORCED)
        with pytest.raises(Refused, match=f"{GET} would have 33 different ways to adapt; the maximum is 32"):
            policy_create(name="backend", endpoint=GET, limits=[adapting(floor="70%")], **FORCED)
        policy_create(name="backend", endpoint=GET, limits=[adapting(floor="70%", pin="80%")], **FORCED)

    @pytest.mark.usefixtures("policy")
    def test_an_edit_makes_no_generation_and_can_be_undone(self) -> None:
        made = limit_of("backend", "backend").changed_revision_id
        limit_set(policy="backend", limit=adapting(floor="50%"), **SAID)
        held = limit_of("backend", "backend")
        assert held.adapt == {**ADAPT, "floor": "50%"}
        assert (held.changed_revision_id, held.past) == (made, [])
        revision_revert(number=newest().number, **FORCED)
        assert limit_of("backend", "backend").adapt == ADAPT

    @pytest.mark.usefixtures("policy")
    def test_a_lower_floor_is_a_cut_and_a_higher_one_is_none(self) -> None:
        with pytest.raises(Refused, match="adapts between 10 % and 100 %"):
            limit_set(policy="backend", limit=adapting(floor="10%"), **SAID)
        limit_set(policy="backend", limit=adapting(floor="60%"), **SAID)

    @pytest.mark.usefixtures("policy")
    def test_it_survives_an_export_and_the_spreadsheet(self) -> None:
        text = document_export()
        assert "slow: 300ms" in text
        assert document_apply(document=accepted(read_document(text)), **SAID) is None
        sheet = sheet_write()
        assert "floor 30%, ceiling 100%, slow 300ms, errors 5%" in sheet
        rows: Any = read_sheet(sheet)
        assert any(row.fields.get("adapt") for row in rows)


@pytest.mark.usefixtures("policy")
class TestReadings:
    def test_a_healthy_limit_is_at_its_ceiling_with_the_reason(self, store: redis.Redis) -> None:
        say(store, 1.0, "free", bad=0.0)
        readings_take(NOW)
        (found,) = adaptive_limits(NOW)
        assert (found.endpoint, found.value_words, found.bounds_words) == (GET, "100 %", "from 30 % to 100 %")
        assert found.reason == "the backend is healthy: 0 % of 600 answers per second were bad"

    def test_a_cut_is_read_with_what_was_seen(self, store: redis.Redis) -> None:
        say(store, 0.42)
        readings_take(NOW)
        (found,) = adaptive_limits(NOW, endpoint=Endpoint.objects.get(name=GET))
        assert found.value == 420
        assert found.reason.startswith("cut so that the backend can work off its queue: 40 % of 600 answers")

    def test_a_dead_signal_is_said(self, store: redis.Redis) -> None:
        readings_take(NOW)
        (found,) = adaptive_limits(NOW)
        assert (found.value, found.reason.startswith("no answers were reported")) == (1_000, True)

    def test_only_changes_and_one_a_minute_are_kept_for_two_days(self, store: redis.Redis) -> None:
        say(store, 0.42)
        for step in range(13):
            readings_take(NOW + timedelta(seconds=10 * step))
        assert AdaptiveReading.objects.count() == 3
        say(store, 0.57, "cruise")
        readings_take(NOW + timedelta(seconds=130))
        points = adaptive_timeline("backend", "backend", NOW, NOW + timedelta(hours=1))
        assert [point.value for point in points] == [420, 420, 420, 570]
        readings_take(NOW + KEPT + timedelta(hours=1))
        assert AdaptiveReading.objects.count() == 1

    def test_limits_at_their_floor_are_found_after_a_time_without_a_break(self, store: redis.Redis) -> None:
        for minute in range(12):
            say(store, 0.6 if minute == 3 else 0.3)
            readings_take(NOW + timedelta(minutes=minute))
        end = NOW + timedelta(minutes=11)
        (found,) = limits_at_floor(end, timedelta(minutes=7))
        assert (found.limit.limit, found.since) == ("backend", NOW + timedelta(minutes=4))
        assert limits_at_floor(end, timedelta(minutes=8)) == []


@pytest.mark.usefixtures("policy")
class TestThePin:
    def test_it_holds_the_present_value_and_can_be_undone(self, store: redis.Redis) -> None:
        say(store, 0.42)
        readings_take(timezone.now())
        limit_pin(policy="backend", limit="backend", **SAID)
        assert limit_of("backend", "backend").adapt == {**ADAPT, "pin": "42%"}
        readings_take(timezone.now())
        (found,) = adaptive_limits(timezone.now())
        assert (found.value, found.pin, found.reason) == (420, 420, "pinned by hand")
        assert limits_at_floor(timezone.now(), timedelta(0)) == []
        revision_revert(number=newest().number, **SAID)
        assert limit_of("backend", "backend").adapt == ADAPT

    def test_a_reading_older_than_the_edit_does_not_contradict_it(self, store: redis.Redis) -> None:
        say(store, 0.42)
        readings_take(NOW)
        limit_pin(policy="backend", limit="backend", at="80%", **SAID)
        (pinned,) = adaptive_limits(NOW)
        assert (pinned.is_pinned, pinned.reason, pinned.value) == (True, "pinned by hand", 800)
        readings_take(NOW + timedelta(seconds=10))
        limit_unpin(policy="backend", limit="backend", **SAID)
        (free,) = adaptive_limits(NOW + timedelta(seconds=10))
        assert not free.is_pinned
        assert free.reason.startswith("unpinned a moment ago")

    def test_a_given_value_and_back_to_none(self) -> None:
        limit_pin(policy="backend", limit="backend", at="62.5%", **SAID)
        assert limit_of("backend", "backend").adapt == {**ADAPT, "pin": "62.5%"}
        limit_unpin(policy="backend", limit="backend", **SAID)
        assert limit_of("backend", "backend").adapt == ADAPT

    def test_an_old_reading_is_not_its_present_value(self, store: redis.Redis) -> None:
        say(store, 0.42)
        readings_take(timezone.now() - FRESH)
        with pytest.raises(Refused, match=r"no value was read in the last two minutes; name a share, such as 60%"):
            limit_pin(policy="backend", limit="backend", **SAID)
        assert limit_of("backend", "backend").adapt == ADAPT

    @pytest.mark.parametrize(
        ("policy_name", "at", "sentence"),
        [
            ("backend", "12%", "must be from floor to ceiling"),
            ("backend", "lots", "is not a share"),
            ("pro-all", "50%", "has no limit backend"),
        ],
    )
    def test_what_cannot_be_pinned_is_refused(self, policy_name: str, at: str, sentence: str) -> None:
        with pytest.raises(Refused, match=sentence):
            limit_pin(policy=policy_name, limit="backend", at=at, **SAID)

    def test_a_limit_that_does_not_adapt_is_refused(self) -> None:
        with pytest.raises(Refused, match="does not adapt; set adapt first"):
            limit_pin(policy="pro-all", limit="burst", **SAID)
