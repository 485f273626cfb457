"""What a plan holds for Lua to read."""

from __future__ import annotations

import json

from headroom_edge.algorithms import ALGORITHMS
from quotas.policies.spec import Generation, Tenant
from tests.quotas.policies.worlds import (
    compiled,
    entry,
    global_policy,
    limit,
    plan,
    row,
    shard,
    tenant_policy,
    tier_policy,
    world,
)


def test_plain_tenant_only_names_its_tier() -> None:
    compiler = compiled(world(tier_policy("*", limit("burst"))))
    assert entry(compiler, "bob") == "00002t2"
    assert json.loads(shard(compiler, "bob").config["main"])["tiers"].keys() == {"t1", "t2"}


def test_every_shard_holds_the_plans_of_every_tier() -> None:
    compiler = compiled(world(tier_policy("*", limit("burst"))))
    plans = [{name for name in image.config if name[:2] in ("s:", "p:")} for image in compiler.image.shards]
    assert all(found == plans[0] for found in plans)


def test_limit_carries_the_numbers_of_its_algorithm() -> None:
    bucket = limit("burst", rate=100, per="1s", burst=200, unit="cost")
    found = row(plan(compiled(world(tier_policy("*", bucket)))), "burst")
    assert (found["k"], found["P"], found["Q"], found["n"], found["mw"]) == ("t", 10_000, 1, 200, 0)
    assert (found["hq"], found["hw"], found["m"]) == (200, 2, "e")
    assert "u" not in found


def test_limit_in_requests_is_marked() -> None:
    assert row(plan(compiled(world(tier_policy("*", limit("burst"))))), "burst")["u"] == 1


def test_limits_of_one_scope_and_subject_share_a_record() -> None:
    policy = tier_policy("*", limit("burst"), limit("minute", "fixed_window", limit=5, window="1m"))
    (group,) = plan(compiled(world(policy)))["g"]
    assert [limit["name"] for limit in group["l"]] == ["burst", "minute"]
    assert group["c"] == "0"
    assert "d" not in group
    assert group["ttl"] == 121_000  # two windows of a minute, and a second


def test_other_subjects_get_records_of_their_own() -> None:
    policy = tier_policy("*", limit("burst"), limit("minute", "fixed_window", "key|ip", limit=5, window="1m"))
    by_subject = {group["t"]: group for group in plan(compiled(world(policy)))["g"]}
    assert by_subject["key|ip"]["d"] == [["key"], ["ip"]]
    assert by_subject.keys() == {"tenant", "key|ip"}


def test_limit_of_an_endpoint_replaces_the_one_of_the_same_name() -> None:
    everywhere = tier_policy("*", limit("burst"), limit("minute", "fixed_window", limit=5, window="1m"))
    own = tier_policy("search:query", limit("burst", rate=1, burst=1))
    found = plan(compiled(world(everywhere, own)), endpoint="search:query")
    groups = {group["c"]: group for group in found["g"]}
    assert [limit["n"] for limit in groups["001"]["l"]] == [1]
    # carried, not applied: all plans of the set see the same record
    assert [(limit["name"], "x" in limit) for limit in groups["0"]["l"]] == [("burst", True), ("minute", False)]


def test_record_of_which_nothing_applies_is_left_out() -> None:
    found = plan(
        compiled(world(tier_policy("*", limit("burst")), tier_policy("search:query", limit("burst", rate=1)))),
        endpoint="search:query",
    )
    assert [group["c"] for group in found["g"]] == ["001"]


def test_limit_that_an_endpoint_switches_off_is_gone_there() -> None:
    everywhere = tier_policy("*", limit("burst"), limit("minute", "fixed_window", limit=5, window="1m"))
    found = plan(
        compiled(world(everywhere, tier_policy("search:query", limit("burst", mode="off")))), endpoint="search:query"
    )
    assert [(limit["name"], "x" in limit) for limit in found["g"][0]["l"]] == [("burst", True), ("minute", False)]


def test_endpoint_without_limits_of_its_own_has_no_plan_of_its_own() -> None:
    compiler = compiled(world(tier_policy("*", limit("burst")), tier_policy("search:query", limit("daily"))))
    sets = [json.loads(text) for name, text in shard(compiler).config.items() if name.startswith("s:")]
    assert {"*", "search:query"} in [found.keys() for found in sets]


def test_global_limits_stand_last_and_are_counted_for_everyone() -> None:
    compiler = compiled(
        world(
            tier_policy("*", limit("burst")),
            global_policy("*", limit("total")),
            global_policy("search:*", limit("backend")),
            global_policy("search:query", limit("queries")),
        )
    )
    groups = plan(compiler, endpoint="search:query")["g"]
    assert [(group["c"], "a" in group) for group in groups] == [
        ("0", False),
        ("0", True),
        ("@search", True),
        ("001", True),
    ]
    assert [group["c"] for group in plan(compiler, endpoint="search:suggest")["g"]] == ["0", "0", "@search"]
    assert [group["c"] for group in plan(compiler, endpoint="payments:create")["g"]] == ["0", "0"]


def test_shadow_limits_are_marked_and_do_not_decide_the_failure_mode() -> None:
    policy = tier_policy("*", limit("burst"), limit("minute", mode="shadow", on_failure="closed"))
    found = plan(compiled(world(policy)))
    assert row(found, "minute", mode="s")
    assert found["f"] == "open"


def test_failure_mode_is_the_strictest_of_the_enforced_limits() -> None:
    local = limit("minute", on_failure="local")
    assert plan(compiled(world(tier_policy("*", limit("burst"), local))))["f"] == "local"
    closed = limit("daily", on_failure="closed")
    assert plan(compiled(world(tier_policy("*", local, closed))))["f"] == "closed"


def test_candidate_stands_beside_the_limit_it_would_replace() -> None:
    candidate = ALGORITHMS["token_bucket"].parse({"rate": 5, "burst": 5})
    found = plan(compiled(world(tier_policy("*", limit("burst", candidate=candidate), limit("minute")))))
    (group,) = found["g"]
    trial = row(found, "burst", mode="c")
    assert group["l"][trial["r"] - 1]["name"] == "burst"
    assert group["l"][trial["r"] - 1]["m"] == "e"
    assert trial["n"] == 5
    assert trial["i"] != row(found, "burst")["i"]


def test_promoted_limit_takes_over_the_state_of_its_candidate() -> None:
    candidate = ALGORITHMS["token_bucket"].parse({"rate": 5, "burst": 5})
    before = plan(compiled(world(tier_policy("*", limit("burst", candidate=candidate)))))
    after = plan(compiled(world(tier_policy("*", limit("burst", rate=5, burst=5, adopts_candidate=True)))))
    assert row(after, "burst")["ad"] == row(before, "burst", mode="c")["i"]


def test_earlier_parameters_follow_newest_first() -> None:
    past = tuple(
        Generation(ALGORITHMS["token_bucket"].parse({"rate": rate, "burst": rate}), since_us)
        for rate, since_us in ((5, 2_000), (3, 1_000))
    )
    found = row(plan(compiled(world(tier_policy("*", limit("burst", since_us=3_000, past=past))))), "burst")
    assert found["T"] == 3_000
    assert [(older[1]["n"], older[2]) for older in found["past"]] == [(5, 2_000), (3, 1_000)]
    assert found["past"][0][1]["k"] == "t"


def test_same_parameters_have_the_same_fingerprint_whoever_supplies_them() -> None:
    of_tier = row(plan(compiled(world(tier_policy("*", limit("burst"))))), "burst")
    of_tenant = row(plan(compiled(world(tenant_policy("*", limit("burst", since_us=9_000))))), "burst")
    other = row(plan(compiled(world(tier_policy("*", limit("burst", rate=11))))), "burst")
    assert of_tier["h"] == of_tenant["h"] != other["h"]


def test_suspended_tenant_is_marked() -> None:
    bob = Tenant(2, "bob", "pro", suspended=True)
    assert entry(compiled(world(tier_policy("*", limit("burst")), tenants=[bob])), "bob") == "00002!"
