from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom_edge.plan.routes import Route, Routes, SplitPath, split_template

RIDES = Routes(
    [
        Route("rides:list", "GET", "/v1/rides"),
        Route("rides:create", "POST", "/v1/rides"),
        Route("rides:get", "GET", "/v1/rides/{id}"),
        Route("rides:status", "GET", "/v1/rides/status"),
        Route("rides:report", "POST", "/v1/rides/report"),
        Route("rides:any", "*", "/v1/rides/{id}/{part}"),
        Route("drivers:get", "GET", "/v1/{kind}/nearest"),
        Route("root:get", "GET", "/"),
        Route("folder:get", "GET", "/folder/"),
        Route("head:own", "HEAD", "/v1/rides/status"),
    ]
)


def split(path: str) -> SplitPath:
    return split_template(path)


@pytest.mark.parametrize(
    ("method", "path", "endpoint"),
    [
        ("GET", "/", "root:get"),
        ("GET", "/v1/rides", "rides:list"),
        ("POST", "/v1/rides", "rides:create"),
        ("DELETE", "/v1/rides", None),
        ("GET", "/v1/rides/7", "rides:get"),
        ("GET", "/v1/rides/status", "rides:status"),
        ("HEAD", "/v1/rides/status", "head:own"),
        ("HEAD", "/v1/rides/7", "rides:get"),
        ("GET", "/v1/rides/report", "rides:get"),  # literal only for POST: the variable serves GET
        ("GET", "/v1/rides/nearest", "rides:get"),
        ("GET", "/v1/drivers/nearest", "drivers:get"),  # back from the literal branch into the variable one
        ("PATCH", "/v1/rides/7/seats", "rides:any"),
        ("GET", "/v1/rides/7/seats/2", None),
        ("GET", "/v1", None),
        ("GET", "/v1/rides/", "rides:list"),
        ("GET", "/folder/", "folder:get"),
        ("GET", "/folder", "folder:get"),
    ],
)
def test_the_most_specific_template_that_serves_the_method_wins(method: str, path: str, endpoint: str | None) -> None:
    assert RIDES.match(method, split(path)) == endpoint


def test_a_trailing_slash_tells_two_endpoints_apart() -> None:
    routes = Routes([Route("a:plain", "GET", "/a"), Route("a:folder", "GET", "/a/")])
    assert [routes.match("GET", split(path)) for path in ("/a", "/a/")] == ["a:plain", "a:folder"]


def test_a_variable_takes_no_empty_segment() -> None:
    assert RIDES.match("GET", SplitPath(["v1", "rides", ""])) is None


def test_case_counts_unless_it_is_told_not_to() -> None:
    routes = [Route("rides:list", "GET", "/v1/Rides")]
    assert Routes(routes).match("GET", split("/V1/rides")) is None
    assert Routes(routes, ignore_case=True).match("GET", split("/V1/rIDES")) == "rides:list"


segment = st.sampled_from(["a", "b", "{x}"])


@given(
    templates=st.lists(st.lists(segment, max_size=4).map(tuple), max_size=12, unique=True),
    path=st.lists(st.sampled_from(["a", "b", "c"]), max_size=4),
)
def test_it_agrees_with_trying_every_template(templates: list[tuple[str, ...]], path: list[str]) -> None:
    routes = Routes(Route("/".join(template), "GET", "/" + "/".join(template)) for template in templates)
    fitting = [
        template
        for template in templates
        if len(template) == len(path) and all(own in ("{x}", given) for own, given in zip(template, path, strict=True))
    ]
    best = min(fitting, key=lambda template: [part == "{x}" for part in template], default=None)
    assert routes.match("GET", SplitPath(path)) == (None if best is None else "/".join(best))


def test_a_thousand_crossing_templates_are_matched_within_a_millisecond() -> None:
    """A5: the worst that templates can do, every mixture of literal and variable, and a path that fits none."""
    mixtures = itertools.product(("a", "{x}"), repeat=9)
    routes = Routes(Route("e", "GET", "/" + "/".join((*parts, "end"))) for parts in mixtures)
    path = SplitPath(["a"] * 9 + ["other"])
    assert best_ms(lambda: routes.match("GET", path)) <= 1.0
    assert routes.match("GET", path) is None


def best_ms(work: object) -> float:
    """Of the processor's time, and the best of several: the machine has other things to do."""
    assert callable(work)
    took = []
    for _ in range(20):
        start = time.thread_time()
        work()
        took.append(time.thread_time() - start)
    return min(took) * 1_000
