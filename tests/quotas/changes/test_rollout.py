"""Changes that are tried out, enforced for real: services, publisher, Lua."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest
import redis
from django.conf import settings
from django.utils import timezone

from headroom_edge import keys
from quotas.changes.guard import BelowPeakRefused
from quotas.changes.promotion import change_promote
from quotas.changes.rollout import Mode, change_drop, change_propose, change_start
from quotas.changes.trial_rule import TrialRule
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.endpoints import endpoint_update
from quotas.errors import Refused
from quotas.models import Change, Revision
from quotas.models.change import ChangeState
from quotas.models.usage import Outcome
from quotas.policies.edit import candidate_set, limit_set, policy_create, policy_delete, policy_update
from quotas.policies.explain import explain
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.tenants import NewTenant, tenants_create
from tests.quotas.changes.test_peaks import asked
from tests.quotas.publishing.worlds import differences
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket, limit_of, newest
from tests.valkeys import SpareValkey

pytestmark = pytest.mark.usefixtures("world")


def slow(size: int, name: str = "burst", **fields: Any) -> dict[str, Any]:
    """Nothing flows back while a test runs."""
    return {"name": name, "algorithm": "token_bucket", "rate": 1, "per": "1d", "burst": size, **fields}


class Store:
    """What callers meet, once everything is published."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._publisher = Publisher(client, settings.HEADROOM_SHARDS)

    def publish(self) -> None:
        self._publisher.publish()
        assert differences(self._client) == []

    def rows(self, tenant: str, function: str = "hr_peek", endpoint: str = GET) -> list[list[Any]]:
        arguments = (keys.tenant_prefix(tenant), tenant, endpoint, "1", "ALL")
        return cast("list[list[Any]]", cast("list[Any]", self._client.fcall(function, 1, *arguments))[12:])

    def allows(self, tenant: str, endpoint: str = GET) -> bool:
        reply = self._client.fcall("hr_check", 1, keys.tenant_prefix(tenant), tenant, endpoint, "1")
        return bool(cast("list[Any]", reply)[0])

    def admitted(self, tenant: str, times: int) -> int:
        return sum(self.allows(tenant) for _ in range(times))

    def quota(self, tenant: str, limit: str = "burst") -> int:
        return next(int(row[2]) for row in self.rows(tenant) if row[0] == limit and row[8] == "e")

    def remaining(self, tenant: str, limit: str = "burst") -> int:
        """A peek tells what would be left after the request, if it may pass."""
        return next(int(row[4]) + int(row[1]) for row in self.rows(tenant) if row[0] == limit)

    def counted(self, tenant: str, outcome: str) -> int:
        found = cast("dict[str, str]", self._client.hgetall(keys.usage(keys.shard_of(tenant))))
        return sum(int(value) % 2**24 for field, value in found.items() if field[17:18] == outcome)


@pytest.fixture
def shop(valkey: redis.Redis, valkey_server: SpareValkey) -> Iterator[Store]:
    with store.connect(valkey_server.url) as client:
        store.prepare(client)
        yield Store(client)


@pytest.fixture
def slow_world(world: None) -> None:
    """Tier pro may do ten requests."""
    policy_update(name="pro-all", limits=[slow(10)], **FORCED)


def proposed(edit: Callable[..., object] = limit_set, **arguments: Any) -> int:
    return change_propose(edit, **(arguments or {"policy": "pro-all", "limit": slow(4)}), **SAID).pk


def refusal(edit: Callable[[], object]) -> str:
    before = Revision.objects.count()
    with pytest.raises(Refused) as refused:
        edit()
    assert Revision.objects.count() == before
    return str(refused.value)


def started(number: int, mode: Any = "shadow", **arguments: Any) -> Change:
    return change_start(change=number, mode=mode, **arguments, **SAID)


class TestAProposal:
    def test_it_changes_nothing_and_says_whom_it_hurts(self) -> None:
        before = newest().number
        change = Change.objects.get(pk=proposed(policy="pro-all", limit=bucket(50)))
        assert newest().number == before
        assert (change.state, change.action, change.touched) == (ChangeState.PENDING, "limit_set", ["policy:pro-all"])
        assert (change.impact["hurt"], change.impact["hurt_count"]) == (["acme"], 1)

    def test_of_nothing_it_is_refused(self) -> None:
        assert "nothing to propose" in refusal(lambda: proposed(policy="pro-all", limit=bucket(100)))

    def test_promoted_it_is_one_revision(self) -> None:
        number = proposed(policy="pro-all", limit=bucket(50))
        change = change_promote(change=number, **FORCED)
        assert (change.state, change.end_revision_id) == (ChangeState.PROMOTED, newest().number)
        assert newest().touched == ["policy:pro-all"]
        assert limit_of("pro-all").parameters["rate"] == 50

    def test_a_cut_takes_force_to_promote(self) -> None:
        number = proposed(policy="pro-all", limit=bucket(50))
        assert "a cut of 50 %" in refusal(lambda: change_promote(change=number, **SAID))

    def test_dropped_it_leaves_no_revision(self) -> None:
        before = newest().number
        change = change_drop(change=proposed(policy="pro-all", limit=bucket(50)), **SAID)
        assert (change.state, change.end_revision_id, change.end_author) == (ChangeState.DROPPED, None, "ann")
        assert newest().number == before

    def test_over_it_is_over(self) -> None:
        number = proposed(policy="pro-all", limit=bucket(50))
        change_drop(change=number, **SAID)
        for again in (change_drop, change_promote):
            assert "was already dropped" in refusal(partial(again, change=number, **SAID))

    def test_what_others_did_meanwhile_is_not_undone(self) -> None:
        number = proposed(policy="pro-all", limit=bucket(200))
        limit_set(policy="pro-all", limit=bucket(300), **SAID)
        assert "policy:pro-all was changed since" in refusal(lambda: change_promote(change=number, **FORCED))

    @pytest.mark.parametrize(
        ("edit", "arguments"),
        [
            (policy_delete, {"name": "pro-all"}),
            (policy_create, {"name": "acme-get", "tenant": "acme", "endpoint": GET, "limits": [bucket(3)]}),
            (endpoint_update, {"name": PAY, "default_cost": 20}),
        ],
    )
    def test_any_edit_can_be_one(self, edit: Callable[..., object], arguments: dict[str, Any]) -> None:
        change = change_promote(change=proposed(edit, **arguments), **FORCED)
        assert newest().after == change.after


@pytest.mark.usefixtures("slow_world")
class TestInShadow:
    def test_it_never_denies_and_is_judged_beside_the_live_limit(self, shop: Store) -> None:
        started(proposed())
        shop.publish()
        assert shop.admitted("acme", 12) == 10
        assert shop.counted("acme", Outcome.CANDIDATE_DENIES) == 10 - 4

    def test_promoted_it_keeps_the_state_it_has_gathered(self, shop: Store) -> None:
        shop.publish()
        assert shop.admitted("acme", 9) == 9
        number = proposed()
        started(number)
        shop.publish()
        assert shop.admitted("acme", 1) == 1
        assert shop.remaining("acme") == 0
        change_promote(change=number, **FORCED)
        shop.publish()
        assert (shop.quota("acme"), shop.remaining("acme")) == (4, 3)
        assert limit_of("pro-all").adopts_candidate

    def test_dropped_it_leaves_the_live_limit_as_it_is(self, shop: Store) -> None:
        number = proposed()
        started(number)
        shop.publish()
        assert shop.admitted("acme", 4) == 4
        change_drop(change=number, **SAID)
        shop.publish()
        assert shop.remaining("acme") == 6

    def test_a_limit_that_is_new_counts_without_being_enforced(self, shop: Store) -> None:
        number = proposed(policy="pro-all", limit=slow(2, "daily"))
        started(number)
        shop.publish()
        assert shop.admitted("acme", 3) == 3
        change_promote(change=number, **FORCED)
        shop.publish()
        assert not shop.allows("acme")
        assert limit_of("pro-all", "daily").mode == "enforce"

    def test_a_policy_that_is_new_too(self, shop: Store) -> None:
        started(proposed(policy_create, name="pro-get", tier="pro", endpoint=GET, limits=[slow(2, "own")]))
        shop.publish()
        assert shop.admitted("acme", 5) == 5

    def test_what_would_replace_an_enforced_limit_is_refused(self) -> None:
        number = proposed(policy_create, name="pro-get", tier="pro", endpoint=GET, limits=[slow(2)])
        assert "would replace an enforced one" in refusal(lambda: started(number))

    def test_another_subject_is_refused(self) -> None:
        number = proposed(policy="pro-all", limit=slow(10, subject="key"))
        assert "would count something else" in refusal(lambda: started(number))

    def test_what_only_goes_is_refused(self) -> None:
        assert "only removes limits" in refusal(lambda: started(proposed(policy_delete, name="pro-all")))

    def test_what_is_no_policy_is_refused(self) -> None:
        number = proposed(endpoint_update, name=PAY, default_cost=20)
        assert "only policies can be tried in shadow" in refusal(lambda: started(number))

    def test_meanwhile_nobody_else_edits_the_policy(self) -> None:
        number = proposed()
        started(number)
        for edit in (
            lambda: limit_set(policy="pro-all", limit=slow(20), **SAID),
            lambda: candidate_set(policy="pro-all", limit="burst", candidate=None, **SAID),
        ):
            assert f"change {number} is on trial on policy:pro-all" in refusal(edit)
        assert limit_set(policy="free-all", limit=bucket(20), **SAID)

    def test_a_rollback_ends_it(self, shop: Store) -> None:
        before = newest().number
        number = proposed()
        started(number)
        revision_rollback(number=before, **SAID)
        change = Change.objects.get(pk=number)
        assert (change.state, change.end_reason) == (ChangeState.DROPPED, "because")
        assert limit_of("pro-all").candidate is None

    @pytest.mark.parametrize("undo", [revision_rollback, revision_revert])
    def test_a_promotion_that_is_undone_does_not_reopen_it(self, undo: Callable[..., object]) -> None:
        number, before = proposed(), limit_of("pro-all").parameters
        started(number)
        change_promote(change=number, **FORCED)
        promoted = newest().number
        undo(number=promoted if undo is revision_revert else promoted - 1, **SAID)
        change = Change.objects.get(pk=number)
        assert (change.state, change.end_revision_id) == (ChangeState.REVERTED, promoted)
        assert change.revert_revision_id == newest().number
        live = limit_of("pro-all")
        assert (live.parameters, live.candidate) == (before, None)
        limit_set(policy="pro-all", limit=slow(20), **SAID)  # nothing holds the policy

    def test_an_undo_that_is_undone_promotes_it_again(self) -> None:
        number = proposed()
        change_promote(change=number, **FORCED)
        revision_revert(number=newest().number, **SAID)
        revision_revert(number=newest().number, **SAID)
        change = Change.objects.get(pk=number)
        assert (change.state, change.revert_revision_id) == (ChangeState.PROMOTED, None)

    @pytest.mark.parametrize("mode", ["shadow", "canary"])
    def test_an_undo_that_reopened_its_trial_and_is_undone_promotes_it_again(self, mode: Mode) -> None:
        number = proposed()
        change_start(change=number, mode=mode, share_percent=50 if mode == "canary" else None, **FORCED)
        change_promote(change=number, **FORCED)
        revision_revert(number=newest().number, reopen_trials=True, **SAID)
        assert Change.objects.get(pk=number).state == mode
        revision_revert(number=newest().number, **SAID)
        assert limit_of("pro-all").parameters["burst"] == 4
        assert Change.objects.get(pk=number).state == ChangeState.PROMOTED
        revision_revert(number=newest().number, **SAID)
        assert Change.objects.get(pk=number).state == ChangeState.REVERTED

    def test_the_end_of_a_trial_is_reverted_only_by_asking_to_reopen_it(self) -> None:
        number = proposed()
        started(number)
        change_drop(change=number, **SAID)
        dropped = newest().number
        assert "stays over; reopen it" in refusal(lambda: revision_revert(number=dropped, **SAID))
        revision_revert(number=dropped, reopen_trials=True, **SAID)
        assert Change.objects.get(pk=number).state == ChangeState.SHADOW

    @pytest.mark.parametrize("lasts", [timedelta(hours=48), timedelta(days=7)])
    def test_a_trial_that_is_reopened_lasts_as_long_again(
        self, lasts: timedelta, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        number = proposed()
        started(number, rule=TrialRule(ends=timezone.now() + lasts))
        change_drop(change=number, **SAID)
        later = timezone.now() + timedelta(days=20)
        monkeypatch.setattr(timezone, "now", lambda: later)
        revision_revert(number=newest().number, reopen_trials=True, **FORCED)
        row = Change.objects.get(pk=number)
        assert row.state == ChangeState.SHADOW
        assert row.trial_ends
        assert abs(row.trial_ends - later - lasts) < timedelta(minutes=5)

    def test_a_rollback_to_where_it_stood_resumes_it_if_asked_to(self, shop: Store) -> None:
        number = proposed()
        started(number)
        then = newest().number
        change_promote(change=number, **FORCED)
        revision_rollback(number=then, reopen_trials=True, **SAID)
        assert Change.objects.get(pk=number).state == ChangeState.SHADOW
        assert limit_of("pro-all").candidate is not None
        change_promote(change=number, **FORCED)
        assert limit_of("pro-all").parameters["burst"] == 4


@pytest.mark.usefixtures("slow_world")
class TestACanary:
    names: Sequence[str] = [f"t-{number}" for number in range(300)]

    @pytest.fixture(autouse=True)
    def many(self, world: None) -> None:
        tenants_create(tenants=[NewTenant(name, "pro") for name in self.names], **SAID)

    def those(self, shop: Store) -> set[str]:
        shop.publish()
        quotas = {name: shop.quota(name) for name in self.names}
        assert set(quotas.values()) <= {4, 10}
        return {name for name, quota in quotas.items() if quota == 4}

    def test_about_its_share_has_it_and_always_the_same(self, shop: Store) -> None:
        number = proposed()
        started(number, "canary", share_percent=20, force=True)
        first = self.those(shop)
        assert 300 * 0.2 - 21 <= len(first) <= 300 * 0.2 + 21  # three standard deviations
        limit_set(policy="free-all", limit=bucket(20), **SAID)
        assert self.those(shop) == first
        started(number, "canary", share_percent=50, force=True)
        more = self.those(shop)
        assert first < more
        assert 300 * 0.5 - 26 <= len(more) <= 300 * 0.5 + 26

    def test_another_change_has_other_tenants(self, shop: Store) -> None:
        number = proposed()
        started(number, "canary", share_percent=20, force=True)
        first = self.those(shop)
        change_drop(change=number, **SAID)
        started(proposed(), "canary", share_percent=20, force=True)
        assert self.those(shop) != first

    def test_state_is_carried_there_and_back(self, shop: Store) -> None:
        shop.publish()
        assert [shop.admitted(name, 3) for name in self.names[:20]] == [3] * 20
        number = proposed()
        started(number, "canary", share_percent=50, force=True)
        chosen = self.those(shop) & set(self.names[:20])
        assert chosen
        assert {shop.remaining(name) for name in chosen} == {1}
        assert all(shop.allows(name) for name in chosen)
        change_drop(change=number, **SAID)
        assert self.those(shop) == set()
        assert {shop.remaining(name) for name in chosen} == {6}

    def test_promoted_it_is_everybodys_and_keeps_the_state(self, shop: Store) -> None:
        number = proposed()
        started(number, "canary", share_percent=50, force=True)
        chosen = self.those(shop)
        assert {shop.admitted(name, 3) for name in self.names} == {3}
        change_promote(change=number, **FORCED)
        assert self.those(shop) == set(self.names)
        assert {shop.remaining(name) for name in chosen} == {1}
        assert {shop.remaining(name) for name in self.names} == {1}

    def test_tenants_that_come_are_in_it_by_the_same_hash(self, shop: Store) -> None:
        started(proposed(), "canary", share_percent=50, force=True)
        shop.publish()
        tenants_create(tenants=[NewTenant(f"n-{number}", "pro") for number in range(40)], **SAID)
        shop.publish()
        assert 5 < sum(shop.quota(f"n-{number}") == 4 for number in range(40)) < 35

    def test_those_with_limits_of_their_own_are_in_it_for_the_rest(self, shop: Store) -> None:
        for name in self.names[:20]:
            policy_create(name=name, tenant=name, endpoint=PAY, limits=[slow(50, "own")], **FORCED)
        started(proposed(), "canary", share_percent=50, force=True)
        assert 0 < len(self.those(shop) & set(self.names[:20])) < 20

    def test_a_cut_takes_force_and_counts_the_share(self) -> None:
        number = proposed()
        said = refusal(lambda: started(number, "canary", share_percent=10))
        assert said.startswith("canary of tier pro: limit burst on *")
        started(number, "canary", share_percent=10, force=True)
        assert newest().touched == [f"change:{number}"]

    def test_those_of_its_share_below_their_peak_must_be_accepted_by_name(self) -> None:
        number, busy = proposed(), self.names[:10]
        for name in busy:
            asked(name, 8)
        with pytest.raises(BelowPeakRefused) as refused:
            started(number, "canary", share_percent=50, force=True)
        cut = {row.tenant for row in refused.value.missing}
        assert Change.objects.get(pk=number).state == ChangeState.PENDING
        started(number, "canary", share_percent=50, force=True, accept=cut)
        sources = {name: explain(tenant=name, endpoint=GET).limits[0].effective.source for name in busy}
        assert cut == {name for name, source in sources.items() if "canary" in source}
        assert 0 < len(cut) < len(busy)

    def test_to_raise_takes_no_force(self) -> None:
        assert started(proposed(policy="pro-all", limit=slow(20)), "canary", share_percent=99.9).share == 999

    @pytest.mark.parametrize("share", [None, 0, 0.04, 100, -5])
    def test_a_share_of_none_or_all_is_refused(self, share: float | None) -> None:
        assert "from 0.1 to 99.9" in refusal(lambda: started(proposed(), "canary", share_percent=share))

    def test_a_tenants_policy_has_none(self) -> None:
        number = proposed(policy_create, name="acme-all", tenant="acme", limits=[slow(3)])
        assert "does not belong to a tier" in refusal(lambda: started(number, "canary", share_percent=5))

    def test_a_tier_has_one_at_a_time(self) -> None:
        first = proposed()
        second = proposed(policy_create, name="pro-get", tier="pro", endpoint=GET, limits=[slow(50, "own")])
        started(first, "canary", share_percent=5, force=True)
        said = refusal(lambda: started(second, "canary", share_percent=5, force=True))
        assert f"tier pro has the canary of change {first}" in said

    def test_whom_it_concerns_can_be_told(self) -> None:
        number = proposed()
        started(number, "canary", share_percent=50, force=True)
        sources = {explain(tenant=name, endpoint=GET).limits[0].effective.source for name in self.names[:30]}
        assert sources == {"tier pro × *", f"tier pro × * (canary of change {number})"}

    def test_a_limit_it_takes_away_is_gone_for_its_share(self, shop: Store) -> None:
        policy_create(name="pro-get", tier="pro", endpoint=GET, limits=[slow(1, "own")], **FORCED)
        started(proposed(policy_delete, name="pro-get"), "canary", share_percent=50)
        shop.publish()
        free = [name for name in self.names if all(row[0] != "own" for row in shop.rows(name))]
        assert 100 < len(free) < 200

    def test_a_rollback_ends_it(self, shop: Store) -> None:
        before = newest().number
        number = proposed()
        started(number, "canary", share_percent=50, force=True)
        revision_rollback(number=before, **FORCED)
        assert self.those(shop) == set()
        assert Change.objects.get(pk=number).state == ChangeState.DROPPED

    def test_from_shadow_it_takes_over(self, shop: Store) -> None:
        number = proposed()
        started(number)
        started(number, "canary", share_percent=50, force=True)
        assert self.those(shop)
        assert limit_of("pro-all").candidate is None
