"""Limits that share form chains in a plan. What cannot be judged as one unit is refused with a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headroom_edge.algorithms import ALGORITHMS
from headroom_edge.algorithms.base import ParameterError
from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.policies.chains import promise
from quotas.policies.compile import Owner, check_compiles
from quotas.policies.configuration_index import Touched
from quotas.policies.limit_codec import limit_parse
from quotas.policies.spec import Configuration, Limit, Override, Policy
from tests.quotas.policies.worlds import (
    NOW_US,
    compiled,
    global_policy,
    limit,
    plan,
    tenant_policy,
    tier_policy,
    world,
)

TIER = Owner("tier", "pro")
TENANT = Owner("tenant", "acme")
GLOBAL = Owner("global", "search:query")


def pool(name: str = "org", subject: str = "tenant", **fields: Any) -> Limit:
    return limit(name, "pool", subject, **{"rate": 1_000, "burst": 250, "reserve": 200} | fields)


def share(name: str = "team", parent: str = "org", subject: str = "team", **fields: Any) -> Limit:
    return limit(name, "borrowing", subject, **{"assured": 200, "burst": 100, "parent": parent} | fields)


def bucket(**fields: Any) -> Any:
    return ALGORITHMS["token_bucket"].parse({"rate": 5, **fields})


POOL, TEAM = pool(), share()
KEY = share("key", "team", "team+key", assured=20, burst=10)

BROKEN: dict[str, tuple[tuple[Policy, ...], Owner, str]] = {
    "a missing parent": (
        (tier_policy("*", TEAM),),
        TIER,
        (
            "limit team (tier pro × *) borrows from org, but no limit org is switched on for every endpoint (*); "
            "add a pool org there, or correct parent"
        ),
    ),
    "a parent that is off": (
        (tier_policy("search:query", replace(POOL, mode="off"), TEAM),),
        TIER,
        (
            "limit team (tier pro × search:query) borrows from org, but no limit org is switched on for endpoint "
            "'search:query'; add a pool org there, or correct parent"
        ),
    ),
    "a parent that is no pool": (
        (tier_policy("*", limit("org"), TEAM),),
        TIER,
        (
            "limit team (tier pro × *) borrows from org, which is a token_bucket; a parent must be a pool or a "
            "borrowing limit"
        ),
    ),
    "itself": (
        (tier_policy("*", share("team", "team")),),
        TIER,
        "limit team (tier pro × *) names itself as its parent; name the pool that it borrows from",
    ),
    "a circle": (
        (tier_policy("*", share("a", "b"), share("b", "a")),),
        TIER,
        "limit a (tier pro × *) borrows from itself in a circle: a → b → a; let one borrow from a pool",
    ),
    "four levels": (
        (tier_policy("*", POOL, TEAM, KEY, share("call", "key", "team+key+user")),),
        TIER,
        "limit call (tier pro × *) has 4 levels: call → key → team → org; the maximum is 3, so leave one out",
    ),
    "dimensions that the child lacks": (
        (tier_policy("*", pool(subject="key"), TEAM),),
        TIER,
        (
            "limit team (tier pro × *) counts by team, but its parent org by key; the parent's dimensions must be "
            "among the child's, so add them to the child's subject"
        ),
    ),
    "dimensions that one alternative of the child lacks": (
        (tier_policy("*", pool(subject="key"), share(subject="key|ip")),),
        TIER,
        (
            "limit team (tier pro × *) counts by key|ip, but its parent org by key; the parent's dimensions must be "
            "among the child's, so add them to the child's subject"
        ),
    ),
    "a narrower scope": (
        (tier_policy("*", POOL, TEAM), tier_policy("search:query", POOL)),
        TIER,
        (
            "limit team (tier pro × *) applies to *, but its parent org only to search:query; "
            "attach the parent to * too, or the child to search:query"
        ),
    ),
    "differing modes": (
        (tier_policy("*", POOL, replace(TEAM, mode="shadow")),),
        TIER,
        (
            "limit team (tier pro × *) has mode shadow, but its parent org has enforce; limits that share are judged "
            "together, so give both the same mode"
        ),
    ),
    "differing units": (
        (tier_policy("*", POOL, replace(TEAM, unit="cost")),),
        TIER,
        "limit team (tier pro × *) counts cost, but its parent org counts requests; give both the same unit",
    ),
    "two leaves": (
        (tier_policy("*", POOL, TEAM), tenant_policy("*", share("vip"))),
        TENANT,
        (
            "team (tier pro × *) and vip (tenant acme × *) both borrow from org for endpoint '*'; a request can borrow "
            "from a limit once only, so let one borrow from the other, or turn one off"
        ),
    ),
    "a global child of a tenant's pool": (
        (global_policy("*", TEAM), tier_policy("*", POOL)),
        Owner("global", "*"),
        "limit team (global × *) borrows from org, but no global limit org is switched on for every endpoint (*)",
    ),
    "two global parents of one name": (
        (global_policy("*", POOL), global_policy("search:query", POOL), tier_policy("search:query", TEAM)),
        TIER,
        (
            "limit team (tier pro × search:query) borrows from org, which several limits are called: "
            "global × *, global × search:query; rename one"
        ),
    ),
    "two global leaves": (
        (global_policy("*", POOL, TEAM), global_policy("search:query", share("vip"))),
        GLOBAL,
        "team (global × *) and vip (global × search:query) both borrow from org for endpoint 'search:query'",
    ),
    "a candidate": (
        (tier_policy("*", replace(POOL, candidate=bucket())),),
        TIER,
        (
            "limit org (tier pro × *) cannot be tried in shadow beside the live limit, because limits that share are "
            "judged together; dry-run the change, or roll it out to a share of tenants"
        ),
    ),
    "a candidate that shares": (
        (tier_policy("*", limit("burst", candidate=POOL.algorithm)),),
        TIER,
        "limit burst (tier pro × *) cannot be tried in shadow",
    ),
}


def problems(configuration: Configuration, *, clustered: bool = False) -> dict[Owner, str]:
    touched = Touched(frozenset(configuration.tenants), frozenset(configuration.tiers), common=True)
    return check_compiles(configuration, touched, NOW_US, clustered=clustered)


@pytest.mark.parametrize("case", BROKEN)
def test_bad_chain_is_refused_at_the_edit_with_one_sentence(case: str) -> None:
    policies, owner, sentence = BROKEN[case]
    assert problems(world(*policies))[owner].startswith(sentence)


def test_global_parent_in_a_cluster_is_refused_with_the_reason() -> None:
    configuration = world(global_policy("*", POOL), tier_policy("*", TEAM))
    assert not problems(configuration)
    assert "it has one home" in problems(configuration, clustered=True)[TIER]


def test_chain_of_global_limits_alone_works_in_a_cluster() -> None:
    compiler = compiled(world(global_policy("*", POOL, TEAM)), clustered=True)
    assert not compiler.problems
    assert compiler.image.home is not None
    texts = [text for name, text in compiler.image.home.config.items() if name.startswith("p:")]
    assert all('"ch":[[[1,1],[2,1]]]' in text for text in texts), texts
    assert "ch" not in plan(compiler)


def test_limit_that_names_itself_is_refused_where_it_is_read() -> None:
    with pytest.raises(ParameterError, match="parent cannot be the limit itself; name the pool that it borrows from"):
        limit_parse("team", {"algorithm": "borrowing", "assured": 5, "parent": "team"})


def test_limit_without_a_parent_is_refused_where_it_is_read() -> None:
    with pytest.raises(ParameterError, match="parent is missing; name the limit that it borrows from"):
        limit_parse("team", {"algorithm": "borrowing", "assured": 5})


def test_override_that_breaks_a_chain_is_refused() -> None:
    off = Override(1, "acme", "*", NOW_US, None, {"org": {"mode": "off"}})
    found = problems(world(tier_policy("*", POOL, TEAM), overrides=[off]))
    assert "no limit org is switched on" in found[TENANT]


def chain(found: dict[str, Any]) -> list[list[str]]:
    return [[found["g"][g - 1]["l"][place - 1]["name"] for g, place in path] for path in found["ch"]]


def test_plan_names_its_chains_leaf_first() -> None:
    compiler = compiled(world(tier_policy("*", POOL, TEAM, KEY, limit("burst"), pool("other"))))
    assert not compiler.problems
    assert sorted(chain(plan(compiler))) == [["key", "team", "org"], ["other"]]


def test_plan_without_limits_that_share_says_nothing_of_chains() -> None:
    assert "ch" not in plan(compiled(world(tier_policy("*", limit("burst")))))


def test_tenants_own_pool_comes_before_a_global_one_of_that_name() -> None:
    compiler = compiled(world(global_policy("*", POOL), tier_policy("*", TEAM), tenant_policy("*", pool(rate=50))))
    assert not compiler.problems
    (global_chain, own) = sorted(plan(compiler)["ch"], key=len)
    assert [plan(compiler)["g"][g - 1].get("a") for g, _ in own] == [None, None]
    assert [plan(compiler)["g"][g - 1].get("a") for g, _ in global_chain] == [1]


def test_endpoint_of_a_global_policy_may_borrow_from_its_service_or_everyone() -> None:
    compiler = compiled(world(global_policy("search:query", share("team", "all")), global_policy("*", pool("all"))))
    assert not compiler.problems
    assert chain(plan(compiler, endpoint="search:query")) == [["team", "all"]]


def test_replaced_limit_is_in_no_chain() -> None:
    compiler = compiled(world(tier_policy("*", POOL, TEAM), tier_policy("search:query", share(assured=5, burst=5))))
    found = plan(compiler, endpoint="search:query")
    assert chain(found) == [["team", "org"]]
    ((leaf, _),) = found["ch"]
    assert found["g"][leaf[0] - 1]["l"][leaf[1] - 1]["an"] == 5


def promised(lender: Limit, *members: Limit) -> Any:
    assert isinstance(lender.algorithm, Pool | Borrowing)
    return promise(lender.algorithm, [m.algorithm for m in members if isinstance(m.algorithm, Borrowing)])


def test_shares_above_the_rate_are_best_effort() -> None:
    found = promised(pool(reserve=250), *[share(assured=400, burst=50) for _ in range(3)])
    assert found.percent == 83
    assert found.warnings == (
        "The pool can keep only 83 % of the guaranteed shares: they add up to 1,200/s, and it has 1,000/s.",
    )


def test_bursts_above_the_reserve_cost_a_delay() -> None:
    found = promised(POOL, *[share(burst=100) for _ in range(3)])
    assert (found.delay_us, found.longest_us) == (100_000, 250_000)
    assert found.warnings == (
        (
            "A guaranteed request may have to wait about 100ms when all members wake at once, and 250ms at most: "
            "their bursts add up to 300, and the reserve is 200."
        ),
    )


def test_shares_that_use_the_whole_rate_have_no_longest_wait() -> None:
    found = promised(POOL, *[share(assured=500, burst=200) for _ in range(2)])
    assert (found.delay_us, found.longest_us) == (200_000, None)
    assert "wait about 200ms when all members wake at once: their" in found.warnings[0]


def test_without_a_reserve_no_wait_is_promised() -> None:
    found = promised(pool(reserve=0), *[share(burst=100) for _ in range(2)])
    assert found.longest_us is None
    (warning,) = found.warnings
    assert warning.startswith("Without a reserve, a guaranteed request may have to wait as long as others borrow")


def test_shares_that_fit_have_no_warning() -> None:
    assert promised(POOL, TEAM, TEAM).warnings == ()


def test_lender_in_the_middle_keeps_promises_from_its_own_share() -> None:
    assert promised(share(reserve=50), share(assured=100, burst=20), share(assured=300, burst=20)).percent == 50
    assert promised(share(assured=0, burst=None), share(assured=1, burst=1)).percent == 0
