"""The field `lease` of a limit, from what an admin writes to the plan that Lua reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from headroom_edge import Limiter
from quotas.changes.undo import revision_revert
from quotas.errors import Refused, accepted
from quotas.matrix.edit import limits_set, sheet_read, sheet_write
from quotas.overrides import override_create
from quotas.policies.apply import document_apply, document_export, document_plan
from quotas.policies.document import read_document
from quotas.policies.edit import candidate_promote, candidate_set, limit_set
from quotas.policies.explain import explain
from quotas.policies.limit_codec import limit_fields, limit_parse, row_fields
from quotas.policies.spec import Limit
from tests.headroom_edge.limiter import world as limiter_world
from tests.quotas.policies.worlds import compiled, limit, plan, row, tier_policy, world
from tests.quotas.world import FORCED, GET, SAID, bucket, limit_of, newest

QUEUE = {"algorithm": "leaky_bucket", "rate": 5, "queue": 9}


@pytest.mark.parametrize(("text", "ms"), [("never", 0), ("10ms", 10), ("250ms", 250), ("1000ms", 1_000), ("1s", 1_000)])
def test_it_is_never_or_a_duration(text: str, ms: int) -> None:
    found = limit_parse("burst", {"algorithm": "gcra", "rate": 5, "lease": text})
    assert found.lease_ms == ms
    assert limit_parse("burst", limit_fields(found)) == found


def test_unset_it_is_not_written_at_all() -> None:
    """Revisions and documents from before leases stay equal to what is there now."""
    assert "lease" not in limit_fields(limit_parse("burst", {"algorithm": "gcra", "rate": 5}))


@pytest.mark.parametrize("fields", [QUEUE, {"algorithm": "concurrency", "limit": 5, "hold": "9s"}])
def test_what_is_never_leased_may_say_so(fields: dict[str, Any]) -> None:
    assert limit_parse("burst", {**fields, "lease": "never"}).lease_ms == 0


class TestCompiled:
    def rows(self, **about: Any) -> list[dict[str, Any]]:
        candidate = limit("burst").algorithm.scaled(1, 2)
        found = plan(compiled(world(tier_policy("*", limit("burst", candidate=candidate, **about)))))
        return [row(found, "burst"), row(found, "burst", "c")]

    def test_a_plan_has_it_only_if_it_is_set(self) -> None:
        assert all("le" not in found for found in self.rows())
        assert [found["le"] for found in self.rows(lease_ms=250)] == [250, 250]
        assert [found["le"] for found in self.rows(lease_ms=0)] == [0, 0]

    def test_it_is_no_parameter_of_the_algorithm(self) -> None:
        """The fingerprint of a generation stays, so that records stay valid; the rest of the row too."""
        bounded = [{key: value for key, value in found.items() if key != "le"} for found in self.rows(lease_ms=250)]
        assert bounded == self.rows()


LONG = (
    limiter_world.limit("bucket", "token_bucket", rate=1, per="1d", burst=9),
    limiter_world.limit("meter", "gcra", rate=1, per="1d", burst=9),
    limiter_world.limit("window", "fixed_window", limit=9, window="1d"),
    limiter_world.limit("log", "sliding_log", limit=9, window="1d"),
    limiter_world.limit("counter", "sliding_counter", limit=9, window="1d"),
)


def test_what_was_counted_stays_when_only_the_lease_changes(valkey: redis.Redis, valkey_url: str) -> None:
    def remaining(leases: tuple[int | None, ...], revision: int) -> dict[str, int]:
        limits: list[Limit] = [replace(one, lease_ms=ms) for one, ms in zip(LONG, leases, strict=True)]
        limiter_world.publish(valkey, limiter_world.configuration(*limits, revision=revision))
        decision = limiter.check(tenant=limiter_world.TENANT, endpoint=limiter_world.ENDPOINT, rows=True)
        assert (decision.allowed, decision.revision) == (True, revision)
        return {found.name: found.remaining for found in decision.rows}

    with Limiter.from_url(valkey_url, budget_ms=60_000) as limiter:
        assert set(remaining((None,) * 5, 1).values()) == {8}
        assert set(remaining((250, 0, 10, 1_000, 0), 2).values()) == {7}
        assert set(remaining((None,) * 5, 3).values()) == {6}


@pytest.mark.usefixtures("world")
class TestAnEdit:
    def test_it_is_a_revision_with_a_diff_and_makes_no_generation(self) -> None:
        made = limit_of("free-all").changed_revision_id
        limit_set(policy="free-all", limit=bucket(10, lease="250ms"), **SAID)
        held = limit_of("free-all")
        assert (held.lease_ms, held.changed_revision_id, held.past) == (250, made, [])
        before, after = newest().before["policy:free-all"], newest().after["policy:free-all"]
        assert before
        assert after
        assert ("lease" in before["limits"]["burst"], after["limits"]["burst"]["lease"]) == (False, "250ms")

    def test_an_undo_takes_it_back(self) -> None:
        limit_set(policy="free-all", limit=bucket(10, lease="never"), **SAID)
        revision_revert(number=newest().number, **FORCED)
        assert limit_of("free-all").lease_ms is None
        revision_revert(number=newest().number, **FORCED)
        assert limit_of("free-all").lease_ms == 0

    def test_it_survives_an_export_and_the_spreadsheet(self) -> None:
        limit_set(policy="free-all", limit=bucket(10, lease="250ms"), **SAID)
        text = document_export()
        assert "lease: 250ms" in text
        assert document_apply(document=accepted(read_document(text)), **SAID) is None
        sheet = sheet_write()
        assert sheet.splitlines()[1].endswith(",open,250ms,")
        assert limits_set(edits=sheet_read(sheet), **SAID) is None

    def test_a_document_that_leaves_it_out_unsets_it(self) -> None:
        plain = document_export()
        limit_set(policy="free-all", limit=bucket(10, lease="never"), **SAID)
        (change,) = document_plan(document=accepted(read_document(plain)), author="ann").changes
        assert [(field.path, field.before, field.after) for field in change.fields] == [
            ("limits.burst.lease", "never", None)
        ]

    def test_a_candidate_that_is_promoted_does_not_inherit_a_length_that_it_cannot_have(self) -> None:
        limit_set(policy="free-all", limit=bucket(10, lease="250ms"), **SAID)
        candidate_set(policy="free-all", limit="burst", candidate=QUEUE, **SAID)
        candidate_promote(policy="free-all", limit="burst", **FORCED)
        assert (limit_of("free-all").algorithm, limit_of("free-all").lease_ms) == ("leaky_bucket", None)
        limit_set(policy="free-all", limit={"name": "burst", **QUEUE, "lease": "never"}, **FORCED)
        assert row_fields(limit_of("free-all"))["lease"] == "never"


@pytest.mark.usefixtures("world")
class TestAnOverride:
    def override(self, patch: dict[str, Any]) -> Limit:
        ends = timezone.now() + timedelta(hours=1)
        override_create(tenant="bolt", limits={"burst": patch}, end=ends, **FORCED)
        (found,) = explain(tenant="bolt", endpoint=GET).limits
        return found.effective.limit

    def test_it_may_forbid_leases_for_one_tenant(self) -> None:
        assert self.override({"lease": "never"}).lease_ms == 0

    def test_it_keeps_what_it_does_not_name(self) -> None:
        limit_set(policy="free-all", limit=bucket(10, lease="250ms"), **SAID)
        assert self.override({"rate": 20}).lease_ms == 250

    def test_with_an_algorithm_that_is_never_leased_the_length_goes(self) -> None:
        limit_set(policy="free-all", limit=bucket(10, lease="250ms"), **SAID)
        held = self.override(QUEUE)
        assert (held.algorithm.name, held.lease_ms) == ("leaky_bucket", None)

    def test_nonsense_is_refused(self) -> None:
        with pytest.raises(
            Refused, match=r"limits\.burst\.lease must be never or a duration from 10ms to 1s, not '5s'"
        ):
            self.override({"lease": "5s"})
