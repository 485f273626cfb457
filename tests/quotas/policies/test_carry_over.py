"""What a change keeps of the past, so that what was used stays used."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from quotas.changes.undo import revision_rollback
from quotas.errors import accepted
from quotas.models import Override, Revision
from quotas.models.revision import revisions_stamp
from quotas.overrides import override_cancel, override_create
from quotas.policies.apply import document_apply
from quotas.policies.configuration import configuration_load
from quotas.policies.document import read_document
from quotas.policies.edit import candidate_promote, candidate_set, limit_remove, limit_set, policy_create, policy_delete
from quotas.policies.layers import PolicyIndex
from quotas.policies.resolve import resolve
from quotas.policies.spec import PAST_GENERATIONS, to_us
from quotas.tenants import tenant_move, tier_create
from tenants.models import Tenant
from tests.quotas.world import DOCUMENT, FORCED, GET, SAID, bucket, limit_of, newest, rates

pytestmark = pytest.mark.usefixtures("world")


def publish(at_us: int) -> None:
    revisions_stamp(at_us)


def history(tenant: str, name: str = "burst", at_us: int = 10**18) -> list[tuple[object, int, str]]:
    """Rate, since, carry of the limit on `*`, newest first."""
    configuration = configuration_load()
    layers = PolicyIndex.of_configuration(configuration).of_tenant(configuration.tenants[tenant])
    limit = next(e.limit for e in resolve(layers, at_us).everywhere if e.limit.name == name)
    now = (limit.algorithm.describe()["rate"], limit.since_us, limit.carry)
    return [now, *((g.algorithm.describe()["rate"], g.since_us, g.carry) for g in limit.past)]


class TestAnEdit:
    def test_the_old_parameters_join_the_past(self) -> None:
        made = limit_of("free-all").changed_revision_id
        limit_set(policy="free-all", limit=bucket(20), carry="proportional", **FORCED)
        second = newest().number
        limit_set(policy="free-all", limit=bucket(30), **FORCED)
        row = limit_of("free-all")
        assert (row.parameters["rate"], row.changed_revision_id, row.carry) == (30, newest().number, "keep")
        assert rates(row.past) == [(20, second, "proportional"), (10, made, "keep")]

    def test_other_fields_do_not_make_a_generation(self) -> None:
        made = limit_of("free-all").changed_revision_id
        limit_set(policy="free-all", limit=bucket(10, mode="shadow", on_failure="closed", unit="cost"), **FORCED)
        assert (limit_of("free-all").changed_revision_id, limit_of("free-all").past) == (made, [])

    def test_the_oldest_are_forgotten(self) -> None:
        for rate in range(11, 25):
            limit_set(policy="free-all", limit=bucket(rate), **FORCED)
        assert len(limit_of("free-all").past) == PAST_GENERATIONS

    def test_its_time_is_that_of_the_first_publish(self) -> None:
        publish(1_000)
        limit_set(policy="free-all", limit=bucket(20), **FORCED)
        publish(2_000)
        publish(3_000)
        assert history("bolt") == [(20, 2_000, "keep"), (10, 1_000, "keep")]


class TestAMove:
    def test_what_held_before_is_handed_over(self) -> None:
        publish(1_000)
        tenant_move(name="bolt", tier="pro", carry="proportional", **FORCED)
        publish(2_000)
        assert history("bolt") == [(100, 2_000, "proportional"), (10, 1_000, "keep")]

    def test_there_and_back(self) -> None:
        publish(1_000)
        tenant_move(name="bolt", tier="pro", **FORCED)
        publish(2_000)
        tenant_move(name="bolt", tier="free", **FORCED)
        publish(3_000)
        assert history("bolt") == [(10, 3_000, "keep"), (100, 2_000, "keep"), (10, 1_000, "keep")]

    def test_later_edits_of_the_new_tier_go_on_top_and_of_the_old_one_do_not_matter(self) -> None:
        publish(1_000)
        tenant_move(name="bolt", tier="pro", **FORCED)
        publish(2_000)
        limit_set(policy="free-all", limit=bucket(11), **FORCED)
        limit_set(policy="pro-all", limit=bucket(101), **FORCED)
        publish(3_000)
        assert history("bolt") == [(101, 3_000, "keep"), (100, 2_000, "keep"), (10, 1_000, "keep")]

    def test_between_tiers_with_the_same_limit_nothing_needs_to_be_kept(self) -> None:
        tier_create(name="gold", **SAID)
        policy_create(name="gold-all", tier="gold", limits=[bucket(100)], **FORCED)
        tenant_move(name="acme", tier="gold", **FORCED)
        assert Tenant.objects.get(name="acme").handovers == []

    def test_a_policy_of_its_own_is_not_affected(self) -> None:
        policy_create(name="bolt-all", tenant="bolt", limits=[bucket(5)], **FORCED)
        publish(1_000)
        tenant_move(name="bolt", tier="pro", **FORCED)
        publish(2_000)
        assert history("bolt")[0] == (5, 1_000, "keep")
        assert Tenant.objects.get(name="bolt").handovers == []


class TestAPolicyOfItsOwn:
    def test_it_takes_over_from_the_tier_and_gives_back(self) -> None:
        publish(1_000)
        policy_create(name="bolt-all", tenant="bolt", limits=[bucket(5)], carry="reset", **FORCED)
        publish(2_000)
        assert history("bolt") == [(5, 2_000, "reset"), (10, 1_000, "keep")]
        policy_delete(name="bolt-all", carry="proportional", **FORCED)
        publish(3_000)
        assert history("bolt") == [(10, 3_000, "proportional"), (5, 2_000, "reset"), (10, 1_000, "keep")]

    def test_a_second_time_the_whole_story_is_known(self) -> None:
        publish(1_000)
        for number in range(2):
            policy_create(name="bolt-all", tenant="bolt", limits=[bucket(5 + number)], **FORCED)
            publish(2_000 + 2_000 * number)
            policy_delete(name="bolt-all", **FORCED)
            publish(3_000 + 2_000 * number)
        assert [(rate, since) for rate, since, _ in history("bolt")] == [
            (10, 5_000), (6, 4_000), (10, 3_000), (5, 2_000), (10, 1_000),
        ]  # fmt: skip
        assert len(Tenant.objects.get(name="bolt").handovers) == 1

    def test_one_limit_of_several_comes_and_goes(self) -> None:
        publish(1_000)
        policy_create(name="acme-all", tenant="acme", limits=[bucket(5), bucket(9, "own")], **FORCED)
        publish(2_000)
        limit_remove(policy="acme-all", limit="burst", **FORCED)
        publish(3_000)
        assert [row["limit"] for row in Tenant.objects.get(name="acme").handovers] == ["burst"]
        assert [rate for rate, _, _ in history("acme")] == [100, 5, 100]
        assert history("acme", "minute") == [(1000, 1_000, "keep")]

    def test_what_was_never_published_is_no_generation(self) -> None:
        policy_create(name="bolt-all", tenant="bolt", limits=[bucket(5)], **FORCED)
        policy_delete(name="bolt-all", **FORCED)
        publish(1_000)
        assert history("bolt") == [(10, 1_000, "keep")]

    def test_on_an_endpoint_it_leaves_the_limit_of_star_alone(self) -> None:
        policy_create(name="acme-get", tenant="acme", endpoint=GET, limits=[bucket(5)], **FORCED)
        policy_delete(name="acme-get", **FORCED)
        assert Tenant.objects.get(name="acme").handovers == []
        assert len(history("acme")) == 1


class TestALimitThatComesBack:
    def test_it_goes_on_with_what_it_was(self) -> None:
        publish(1_000)
        policy_delete(name="free-all", **FORCED)
        publish(2_000)
        policy_create(name="free-again", tier="free", limits=[bucket(30)], carry="proportional", **FORCED)
        publish(3_000)
        assert history("bolt") == [(30, 3_000, "proportional"), (10, 1_000, "keep")]

    def test_with_the_same_parameters_it_is_as_if_it_had_never_gone(self) -> None:
        publish(1_000)
        limit_remove(policy="pro-all", limit="burst", **FORCED)
        limit_set(policy="pro-all", limit=bucket(100), **FORCED)
        publish(2_000)
        assert history("acme") == [(100, 1_000, "keep")]

    def test_a_rollback_over_it_brings_its_history_back(self) -> None:
        publish(1_000)
        before = newest().number
        policy_delete(name="free-all", **FORCED)
        policy_create(name="free-other", tier="free", limits=[bucket(30)], **FORCED)
        publish(2_000)
        revision_rollback(number=before, **FORCED)
        publish(3_000)
        assert history("bolt") == [(10, 3_000, "keep"), (30, 2_000, "keep"), (10, 1_000, "keep")]

    def test_the_same_from_a_document(self) -> None:
        publish(1_000)
        policy_delete(name="free-all", **FORCED)
        publish(2_000)
        document_apply(document=accepted(read_document(DOCUMENT.replace("rate: 10,", "rate: 30,"))), **FORCED)
        publish(3_000)
        assert history("bolt") == [(30, 3_000, "keep"), (10, 1_000, "keep")]

    def test_one_of_a_tenant_s_own_that_nobody_else_supplies(self) -> None:
        policy_create(name="bolt-all", tenant="bolt", limits=[bucket(5, "own")], **FORCED)
        publish(1_000)
        policy_delete(name="bolt-all", **FORCED)
        policy_create(name="bolt-all", tenant="bolt", limits=[bucket(6, "own")], **FORCED)
        publish(2_000)
        assert history("bolt", "own") == [(6, 2_000, "keep"), (5, 1_000, "keep")]

    def test_one_of_another_tier_or_endpoint_is_another(self) -> None:
        publish(1_000)
        policy_delete(name="free-all", **FORCED)
        policy_create(name="free-get", tier="free", endpoint=GET, limits=[bucket(30)], **FORCED)
        publish(2_000)
        assert limit_of("free-get").past == []


class TestAnOverride:
    def test_it_holds_from_its_publishing_on(self) -> None:
        publish(1_000)
        override_create(tenant="acme", limits={"burst": {"rate": 7}}, **FORCED)
        published = to_us(timezone.now()) + 5_000_000
        publish(published)
        assert history("acme") == [(7, published, "keep"), (100, 1_000, "keep")]

    def test_one_for_later_starts_when_it_says(self) -> None:
        start = timezone.now() + timedelta(hours=1)
        override_create(tenant="acme", start=start, limits={"burst": {"rate": 7}}, **FORCED)
        publish(1_000)
        assert history("acme", at_us=to_us(start) - 1) == [(100, 1_000, "keep")]
        assert history("acme", at_us=to_us(start))[0] == (7, to_us(start), "keep")

    def test_cancelled_early_it_ends_with_the_publishing_of_that(self) -> None:
        publish(1_000)
        override = override_create(tenant="acme", multiplier=(3, 2), carry="proportional", **FORCED)
        started = to_us(timezone.now()) + 1_000_000
        publish(started)
        override_cancel(override=override.pk, **FORCED)
        publish(started + 7)
        assert history("acme") == [
            (100, started + 7, "proportional"),
            (150, started, "proportional"),
            (100, 1_000, "keep"),
        ]

    def test_cancelled_before_it_began_it_never_was(self) -> None:
        override = override_create(
            tenant="acme", start=timezone.now() + timedelta(hours=1), limits={"burst": {"rate": 7}}, **FORCED
        )
        override_cancel(override=override.pk, **FORCED)
        publish(1_000)
        assert history("acme") == [(100, 1_000, "keep")]

    def test_one_that_ended_long_ago_is_not_read_any_more(self) -> None:
        override_create(tenant="acme", end=timezone.now() + timedelta(hours=1), multiplier=(2, 1), **FORCED)
        long_ago = timezone.now() - timedelta(days=401)
        Override.objects.update(start=long_ago - timedelta(hours=1), end=long_ago)
        assert configuration_load().overrides == ()


class TestACandidate:
    def test_it_stands_beside_the_limit(self) -> None:
        candidate_set(policy="free-all", limit="burst", candidate={"algorithm": "gcra", "rate": 4}, **FORCED)
        (limit,) = next(p for p in configuration_load().policies if p.name == "free-all").limits
        assert limit.candidate is not None
        assert (limit.algorithm.name, limit.candidate.name) == ("token_bucket", "gcra")
        assert "burst~candidate" in configuration_load().limit_numbers
        candidate_set(policy="free-all", limit="burst", candidate=None, **FORCED)
        assert limit_of("free-all").candidate is None

    def test_promoted_it_is_the_limit_and_the_old_one_its_past(self) -> None:
        candidate_set(policy="free-all", limit="burst", candidate={"algorithm": "token_bucket", "rate": 4}, **FORCED)
        candidate_promote(policy="free-all", limit="burst", **FORCED)
        row = limit_of("free-all")
        assert (row.parameters["rate"], row.candidate, row.adopts_candidate) == (4, None, True)
        assert [rate for rate, _, _ in rates(row.past)] == [10]

    def test_an_edit_ends_the_adoption(self) -> None:
        candidate_set(policy="free-all", limit="burst", candidate={"algorithm": "gcra", "rate": 4}, **FORCED)
        candidate_promote(policy="free-all", limit="burst", **FORCED)
        limit_set(policy="free-all", limit=bucket(12), **FORCED)
        assert not limit_of("free-all").adopts_candidate


def test_a_revision_is_stamped_once() -> None:
    publish(1_000)
    limit_set(policy="pro-all", limit=bucket(3), **FORCED)
    publish(2_000)
    assert set(Revision.objects.values_list("published_us", flat=True)) == {1_000, 2_000}
    assert newest().published_us == 2_000
