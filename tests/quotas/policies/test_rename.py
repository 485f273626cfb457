"""A new name for a policy or a limit: what was counted goes along, or it is said why not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import redis
from django.utils import timezone

from headroom_edge.keys import tenant_prefix
from quotas.changes.approval import change_approve
from quotas.changes.commit import Proposed, Written, commit
from quotas.changes.promotion import change_promote
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.errors import Refused
from quotas.models import Limit, LimitName, Override, Policy
from quotas.overrides import override_cancel, override_create
from quotas.policies.edit import policy_create
from quotas.policies.limit_names import why_it_resets
from quotas.policies.rename import limit_rename, policy_rename
from quotas.publishing.publisher import Publisher
from quotas.tenants import tenant_update
from tests.quotas.publishing.worlds import publisher_for
from tests.quotas.world import FORCED, GET, SAID, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")


def test_a_policy_keeps_its_place_and_limits() -> None:
    def facts(row: Limit) -> tuple[int, int, int]:
        return row.pk, row.name_id, row.changed_revision_id

    before = facts(limit_of("pro-all"))
    policy_rename(name="pro-all", to="pro-everywhere", **SAID)
    assert facts(limit_of("pro-everywhere")) == before
    assert newest().touched == ["policy:pro-all", "policy:pro-everywhere"]
    with pytest.raises(Refused, match="there is no policy pro-all"):
        policy_rename(name="pro-all", to="x", **SAID)


def test_a_renamed_policy_can_be_renamed_back_by_a_revert() -> None:
    policy_rename(name="pro-all", to="pro-everywhere", **SAID)
    revision_revert(number=newest().number, **FORCED)
    assert Policy.objects.filter(name="pro-all").exists()
    assert limit_of("pro-all").parameters["rate"] == 100


@pytest.mark.parametrize("to", ["free-all", "Pro All", ""])
def test_a_wrong_name_is_refused(to: str) -> None:
    with pytest.raises(Refused):
        policy_rename(name="pro-all", to=to, **SAID)
    with pytest.raises(Refused):
        limit_rename(policy="pro-all", limit="minute", to="burst" if to == "free-all" else to, **SAID)
    assert Policy.objects.filter(name="pro-all").exists()


def test_the_same_name_changes_nothing() -> None:
    before = newest().number
    policy_rename(name="pro-all", to="pro-all", **SAID)
    limit_rename(policy="pro-all", limit="minute", to="minute", **SAID)
    assert newest().number == before


def test_a_name_that_others_have_too_starts_anew_here() -> None:
    number = limit_of("pro-all").name_id
    limit_rename(policy="pro-all", limit="burst", to="peak", **FORCED)
    assert limit_of("pro-all", "peak").name_id != number
    assert limit_of("free-all", "burst").name_id == number


def test_a_name_that_was_used_before_has_its_own_counts() -> None:
    LimitName.objects.create(number=900, name="former")
    limit_rename(policy="pro-all", limit="minute", to="former", **FORCED)
    assert limit_of("pro-all", "former").name_id == 900


def test_an_override_that_names_the_limit_is_in_the_way() -> None:
    override = override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, **SAID)
    with pytest.raises(Refused, match=f"override {override.pk} of acme changes limit minute by its name; end it first"):
        limit_rename(policy="pro-all", limit="minute", to="minutely", **SAID)
    override_cancel(override=override.pk, **FORCED)
    limit_rename(policy="pro-all", limit="minute", to="minutely", **SAID)
    assert Limit.objects.filter(name__name="minutely").exists()


def test_an_override_that_has_ended_is_in_nobodys_way() -> None:
    now = timezone.now()
    override = override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, end=now + timedelta(days=1), **SAID)
    Override.objects.filter(pk=override.pk).update(start=now - timedelta(days=2), end=now - timedelta(days=1))
    limit_rename(policy="pro-all", limit="minute", to="minutely", **SAID)
    assert Limit.objects.filter(name__name="minutely").exists()


def test_the_override_of_another_tenant_does_not_hide_the_one_that_is_in_the_way() -> None:
    fields = {name: value for name, value in bucket(9, per="1h").items() if name != "name"}
    policy_create(name="own", tenant="acme", endpoint=GET, limits=[SLOW], **FORCED)
    override_create(tenant="bolt", endpoint=GET, limits={"slow": fields}, **FORCED)
    second = override_create(tenant="acme", endpoint=GET, limits={"slow": fields}, **FORCED)
    with pytest.raises(Refused, match=f"override {second.pk} of acme changes limit slow by its name"):
        limit_rename(policy="own", limit="slow", to="calm", **SAID)


def test_a_dry_run_changes_nothing() -> None:
    outcome = commit(lambda: limit_rename(policy="pro-all", limit="minute", to="minutely", **SAID), "dry_run")
    assert not isinstance(outcome, Written)
    assert LimitName.objects.filter(name="minute").exists()
    assert not LimitName.objects.filter(name="minutely").exists()


SLOW = bucket(1, "slow", per="1h", burst=5)


def taking(client: redis.Redis, publisher: Publisher) -> Callable[[], tuple[str, int]]:
    """What it returns publishes, takes one request of acme, and says which limit that was and what is left."""

    def taken() -> tuple[str, int]:
        publisher.publish()
        reply = client.fcall("hr_check", 1, tenant_prefix("acme", publisher.shards.count), "acme", GET, 1)
        return str(reply[2]), int(reply[4])

    return taken


@pytest.fixture
def left(valkey: redis.Redis, valkey_url: str) -> Callable[[], tuple[str, int]]:
    client = redis.Redis.from_url(valkey_url, decode_responses=True)
    policy_create(name="own", tenant="acme", endpoint=GET, limits=[SLOW], **FORCED)
    return taking(client, publisher_for(client))


def test_what_was_used_stays_used_under_the_new_name(left: Callable[[], tuple[str, int]]) -> None:
    assert left() == ("slow", 4)
    limit_rename(policy="own", limit="slow", to="calm", **SAID)
    policy_rename(name="own", to="own-rides", **SAID)
    assert left() == ("calm", 3)


def test_what_was_used_stays_used_when_the_rename_is_undone_and_done_again(left: Callable[[], tuple[str, int]]) -> None:
    assert left() == ("slow", 4)
    limit_rename(policy="own", limit="slow", to="calm", **SAID)
    assert left() == ("calm", 3)
    revision_revert(number=newest().number, **FORCED)
    assert left() == ("slow", 2)
    revision_revert(number=newest().number, **FORCED)
    assert left() == ("calm", 1)


def test_a_rollback_over_both_renames_keeps_what_was_used(left: Callable[[], tuple[str, int]]) -> None:
    assert left() == ("slow", 4)
    before = newest().number
    limit_rename(policy="own", limit="slow", to="calm", **SAID)
    policy_rename(name="own", to="own-rides", **SAID)
    limit_rename(policy="own-rides", limit="calm", to="quiet", **SAID)
    assert left() == ("quiet", 3)
    revision_rollback(number=before, **FORCED)
    assert left() == ("slow", 2)
    assert limit_of("own", "slow")


def test_a_rename_that_waits_for_an_approver_keeps_what_was_used(
    left: Callable[[], tuple[str, int]], settings: Any
) -> None:
    assert left() == ("slow", 4)
    settings.HEADROOM_FOUR_EYES = True
    outcome = commit(partial(limit_rename, policy="own", limit="slow", to="calm", **SAID))
    assert isinstance(outcome, Proposed)
    assert outcome.change
    change_approve(change=outcome.change.pk, approver="bob", reason="a better word")
    change_promote(change=outcome.change.pk, **SAID)
    assert left() == ("calm", 3)
    revision_revert(number=newest().number, emergency=True, **FORCED)
    assert left() == ("slow", 2)


def test_a_former_name_that_somebody_else_took_is_not_taken_back() -> None:
    number = limit_of("pro-all", "minute").name_id
    limit_rename(policy="pro-all", limit="minute", to="minutely", **SAID)
    renamed = newest().number
    policy_create(name="own", tenant="acme", endpoint=GET, limits=[bucket(1, "minute", per="1h", burst=5)], **FORCED)
    revision_revert(number=renamed, **FORCED)
    assert limit_of("pro-all", "minute").name_id == limit_of("own", "minute").name_id != number


def test_a_name_that_others_took_over_meanwhile_stays_theirs() -> None:
    number = limit_of("pro-all", "minute").name_id
    limit_rename(policy="pro-all", limit="minute", to="minutely", **SAID)
    renamed = newest().number
    policy_create(name="own", tenant="acme", endpoint=GET, limits=[bucket(1, "minutely", per="1h", burst=5)], **FORCED)
    revision_revert(number=renamed, **FORCED)
    assert limit_of("own", "minutely").name_id == number
    assert limit_of("pro-all", "minute").name_id != number


def test_what_was_used_under_an_override_stays_used_when_it_ends_and_the_limit_is_renamed(
    left: Callable[[], tuple[str, int]],
) -> None:
    override = override_create(tenant="acme", endpoint=GET, limits={"slow": {"burst": 9}}, **SAID)
    assert left() == ("slow", 8)
    override_cancel(override=override.pk, **FORCED)
    limit_rename(policy="own", limit="slow", to="calm", **SAID)
    assert left() == ("calm", 3)
    revision_revert(number=newest().number, **FORCED)
    assert left() == ("slow", 2)


def test_a_renamed_limit_of_a_tier_keeps_what_a_tenant_used_under_an_override_that_was_published_as_ended(
    valkey: redis.Redis, valkey_url: str
) -> None:
    client = redis.Redis.from_url(valkey_url, decode_responses=True)
    policy_create(name="own", tier="pro", endpoint=GET, limits=[SLOW], **FORCED)
    publisher = publisher_for(client)
    left = taking(client, publisher)
    override = override_create(tenant="acme", endpoint=GET, limits={"slow": {"burst": 9}}, **SAID)
    assert left() == ("slow", 8)
    override_cancel(override=override.pk, **FORCED)
    publisher.publish()
    limit_rename(policy="own", limit="slow", to="calm", **SAID)
    assert left() == ("calm", 3)


def test_a_rollback_over_a_rename_and_an_override_keeps_what_was_used(left: Callable[[], tuple[str, int]]) -> None:
    assert left() == ("slow", 4)
    before = newest().number
    limit_rename(policy="own", limit="slow", to="calm", **SAID)
    override_create(tenant="acme", endpoint=GET, limits={"calm": {"burst": 9}}, **SAID)
    assert left() == ("calm", 7)
    revision_rollback(number=before, **FORCED)
    assert left() == ("slow", 2)
    revision_revert(number=newest().number, **FORCED)
    assert left() == ("calm", 5)


def test_a_name_that_anothers_override_uses_stays_with_it() -> None:
    fields = {name: value for name, value in bucket(9, per="1h").items() if name != "name"}
    policy_create(name="own", tenant="acme", endpoint=GET, limits=[SLOW], **FORCED)
    override_create(tenant="bolt", endpoint=GET, limits={"slow": fields}, **FORCED)
    number = limit_of("own", "slow").name_id
    assert "override" in why_it_resets(limit_of("own", "slow"), "calm")
    limit_rename(policy="own", limit="slow", to="calm", **FORCED)
    assert LimitName.objects.get(name="slow").number == number
    renamed = newest().number
    tenant_update(name="bolt", timezone="Europe/Berlin", **SAID)  # it compiles
    revision_revert(number=renamed, **FORCED)
    assert limit_of("own", "slow").name_id == number


def test_a_new_name_that_anothers_override_took_stays_with_it_when_the_rename_is_undone() -> None:
    fields = {name: value for name, value in bucket(9, per="1h").items() if name != "name"}
    policy_create(name="own", tenant="acme", endpoint=GET, limits=[SLOW], **FORCED)
    limit_rename(policy="own", limit="slow", to="calm", **SAID)
    renamed = newest().number
    override_create(tenant="bolt", endpoint=GET, limits={"calm": fields}, **FORCED)
    revision_revert(number=renamed, **FORCED)
    tenant_update(name="bolt", timezone="Europe/Berlin", **SAID)


@pytest.fixture
def used(valkey: redis.Redis, valkey_url: str) -> Callable[[], dict[str, int]]:
    """Publishes, takes one request that costs three, and says what is used of each limit of a policy of two."""
    client = redis.Redis.from_url(valkey_url, decode_responses=True)
    limits = [bucket(1, "a", per="1h", burst=90), bucket(1, "b", per="1h", burst=50, unit="cost")]
    policy_create(name="own", tenant="acme", endpoint=GET, limits=limits, **FORCED)
    publisher = publisher_for(client)

    def taken() -> dict[str, int]:
        publisher.publish()
        prefix = tenant_prefix("acme", publisher.shards.count)
        client.fcall("hr_check", 1, prefix, "acme", GET, 3)
        reply: Any = client.fcall("hr_peek", 1, prefix, "acme", GET, "1", "ALL")
        rows = [row for row in reply[12:] if row[0] not in ("burst", "minute")]
        return {row[0]: int(row[2]) - int(row[4]) - 1 for row in rows}  # less the one that it peeks for

    return taken


def renamed(*steps: tuple[str, str]) -> None:
    for limit, to in steps:
        limit_rename(policy="own", limit=limit, to=to, **SAID)


SWAP = (("a", "tmp"), ("b", "a"), ("tmp", "b"))


def test_a_rollback_over_two_limits_that_swapped_names_keeps_what_each_used(used: Callable[[], dict[str, int]]) -> None:
    assert used() == {"a": 1, "b": 3}
    before = newest().number
    renamed(*SWAP)
    assert used() == {"a": 6, "b": 2}
    revision_rollback(number=before, **FORCED)
    assert used() == {"a": 3, "b": 9}
    revision_revert(number=newest().number, **FORCED)
    assert used() == {"a": 12, "b": 4}


def test_reverts_of_a_swap_one_by_one_keep_what_each_used(used: Callable[[], dict[str, int]]) -> None:
    assert used() == {"a": 1, "b": 3}
    before = newest().number
    renamed(*SWAP)
    revision_revert(number=before + 3, **FORCED)
    assert used() == {"a": 6, "tmp": 2}
    revision_rollback(number=before + 1, **FORCED)
    assert used() == {"b": 9, "tmp": 3}
    revision_rollback(number=before, **FORCED)
    assert used() == {"a": 4, "b": 12}


def test_a_rollback_over_a_name_that_another_limit_took_gives_both_theirs(used: Callable[[], dict[str, int]]) -> None:
    assert used() == {"a": 1, "b": 3}
    before = newest().number
    renamed(*SWAP[:2])
    assert used() == {"a": 6, "tmp": 2}
    revision_rollback(number=before, **FORCED)
    assert used() == {"a": 3, "b": 9}


def test_a_rollback_into_the_middle_of_many_renames_keeps_what_each_used(used: Callable[[], dict[str, int]]) -> None:
    renamed(*SWAP[:2])
    middle = newest().number
    assert used() == {"a": 3, "tmp": 1}
    renamed(("a", "b"), ("tmp", "a"), *SWAP, *SWAP)
    assert used() == {"a": 2, "b": 6}
    revision_rollback(number=middle, **FORCED)
    assert used() == {"a": 9, "tmp": 3}
