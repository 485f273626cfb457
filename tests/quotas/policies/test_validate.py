"""Raw fields to a spec, or to everything that is wrong with them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom_edge.plan.subject import Subject
from quotas.policies.endpoint import DeclaredEndpoint, endpoint_or_service, parse_endpoint, path_template
from quotas.policies.problems import Problem
from quotas.policies.spec import Limit, Policy
from quotas.policies.validate import check_policies, parse_limit, parse_policy

LIMIT = {"name": "burst", "algorithm": "token_bucket", "rate": 5}


def test_a_limit_takes_its_defaults() -> None:
    limit = parse_limit(LIMIT)
    assert isinstance(limit, Limit)
    assert (limit.unit, limit.mode, limit.on_failure, str(limit.subject)) == ("requests", "enforce", "open", "tenant")
    assert limit.algorithm.describe() == {"rate": 5, "per": "1s", "burst": 10}


def test_all_that_is_wrong_with_a_limit_is_told_at_once_under_its_path() -> None:
    raw = {"name": "B", "algorithm": "gcra", "rate": 0, "unit": "x", "mode": 1, "on_failure": None, "subject": ""}
    problems = parse_limit(raw, "limits[3]")
    assert isinstance(problems, list)
    assert {problem.path: problem.code for problem in problems} == {
        "limits[3].name": "name",
        "limits[3].unit": "unit",
        "limits[3].mode": "mode",
        "limits[3].on_failure": "on_failure",
        "limits[3].subject": "subject",
        "limits[3].rate": "parameter",
    }


def test_a_field_with_an_odd_name_is_told_in_one_line() -> None:
    problems = parse_limit({**LIMIT, "x\ny": 1})
    assert isinstance(problems, list)
    assert problems[0].message.startswith("'x\\ny' is not a field of token_bucket; it takes rate,")


def test_the_input_is_left_as_it_was() -> None:
    raw = dict(LIMIT)
    parse_limit(raw)
    assert raw == LIMIT


def test_policies_are_checked_against_each_other() -> None:
    limit = parse_limit(LIMIT)
    assert isinstance(limit, Limit)
    policies = [
        Policy("a", "*", (limit,), tier="pro"),
        Policy("b", "*", (limit,), tier="pro"),
        Policy("a", "*", (limit,)),
    ]
    assert [problem.path for problem in check_policies(policies)] == ["policies[1].endpoint", "policies[2].name"]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("name", "algorithm", "subject", "unit", "mode", "on_failure", "rate", "per", "burst", "max_wait", "queue"),
        *("limit", "window", "hold", "period", "timezone", "anchor"),
    ]
)
WORDS = st.sampled_from(
    [
        *("burst", "token_bucket", "gcra", "leaky_bucket", "fixed_window", "sliding_log", "sliding_counter"),
        *("concurrency", "calendar_quota", "ip|key", "cost", "shadow", "closed", "1s", "1d", "month", "UTC", "02-29"),
        *(1, 31, 2**52, 2**60, -1, 1.5),
    ]
)
ALMOST = st.dictionaries(FIELDS, WORDS | JUNK)


def check_problems(found: object) -> None:
    if isinstance(found, list):
        assert found
        for problem in found:
            assert isinstance(problem, Problem)
            assert 0 < len(problem.message) < 600
            assert "\n" not in problem.message


@given(JUNK | ALMOST)
def test_whatever_comes_is_a_limit_or_problems(raw: Any) -> None:
    check_problems(parse_limit(raw))


@given(JUNK | st.fixed_dictionaries({"name": JUNK, "endpoint": JUNK, "limits": st.lists(ALMOST | JUNK, max_size=3)}))
def test_whatever_comes_is_a_policy_or_problems(raw: Any) -> None:
    check_problems(parse_policy(raw))


@given(
    JUNK
    | st.fixed_dictionaries(
        {"name": JUNK}, optional={"path": JUNK, "method": JUNK, "default_cost": JUNK, "hints": JUNK}
    )
)
def test_whatever_comes_is_an_endpoint_or_problems(raw: Any) -> None:
    check_problems(parse_endpoint(raw))


@pytest.mark.parametrize(
    "path", ["", "/", "/v1/rides", "/v1/rides/", "/v1/rides/{id}", "/v1/{a}/{b_2}", "/~me/a.b-c_d"]
)
def test_paths_are_templates(path: str) -> None:
    assert path_template(path) == path


def test_two_templates_that_differ_in_names_only_are_one_route() -> None:
    one, other = (DeclaredEndpoint("a:b", "GET", path) for path in ("/v1/{id}", "/v1/{ride}"))
    assert one.route == other.route


def test_only_a_global_policy_may_name_a_whole_service() -> None:
    assert endpoint_or_service("payments:*", is_global=True) == "payments:*"
    with pytest.raises(ValueError, match="names a whole service, which only a global policy can"):
        endpoint_or_service("payments:*", is_global=False)


@pytest.mark.parametrize("text", ["tenant", "ip", "user+ip", "key|ip", "user+key|user|ip"])
def test_a_subject_reads_as_it_was_written(text: str) -> None:
    assert str(Subject.parse(text)) == text


def test_a_subject_falls_back_to_what_was_sent() -> None:
    subject = Subject.parse("user+key|ip")
    assert subject.chosen({"user": "u", "key": "k", "ip": "i"}) == (0, ("u", "k"))
    assert subject.chosen({"user": "u", "ip": "i"}) == (1, ("i",))
    assert subject.chosen({"user": "u", "ip": None}) == (1, ("",))
