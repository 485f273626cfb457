"""What a route would match, before it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom_edge.plan.paths import LONGEST_PATH, USUAL, EndpointFinder
from headroom_edge.plan.routes import METHODS, Route
from quotas.route_match import MOST_TYPED, RouteMatch, TriedPath, route_match, routes_read

TRACK = Route("rider:track", "GET", "/rides/{id}")
ANYTHING = Route("rider:any", "*", "/rides/{id}/{part}")
QUOTE = Route("rider:quote", "POST", "/quotes")
REGISTERED = [TRACK, ANYTHING, QUOTE]


def matched(method: str, path: str, *typed: str, name: str = "rider:new") -> RouteMatch:
    return route_match(Route(name, method, path), REGISTERED, typed)


def test_a_more_specific_route_takes_requests_from_the_one_that_had_them() -> None:
    found = matched("GET", "/rides/{id}/receipt")
    assert found.taken_from == ["rider:any"]
    assert [(one.method, one.path) for one in found.examples if one.is_taken] == [("GET", "/rides/8f21c0/receipt")]


def test_a_route_with_its_own_requests_takes_none() -> None:
    found = matched("GET", "/rides")
    assert (found.taken_from, found.count, found.total) == ([], 1, 1)
    assert found.examples == [TriedPath("GET", "/rides", None, "rider:new")]


def test_a_less_specific_route_leaves_to_others_what_they_have() -> None:
    found = matched("GET", "/{kind}/{id}")
    assert found.taken_from == []
    assert TriedPath("GET", "/rides/8f21c0", "rider:track", "rider:track") in found.examples


def test_a_route_for_any_method_takes_only_methods_without_an_endpoint() -> None:
    assert matched("*", "/rides/{id}").taken_from == []
    assert matched("HEAD", "/rides/{id}").taken_from == ["rider:track"]  # GET's endpoint serves HEAD until now


def test_a_route_that_moves_says_what_it_gives_up() -> None:
    found = matched("GET", "/trips/{id}", name="rider:track")
    assert [(one.path, one.after) for one in found.given_up] == [("/rides/8f21c0", None)]
    found = matched("GET", "/rides/{ride}", name="rider:track")
    assert found.given_up == []


@pytest.mark.parametrize(
    ("typed", "tried"),
    [
        ("/rides/7/receipt", ("GET", "/rides/7/receipt", "rider:new")),
        ("POST /rides/7/receipt", ("POST", "/rides/7/receipt", "rider:any")),
        ("https://api.example.com/rides/7/receipt?x=1#y", ("GET", "/rides/7/receipt", "rider:new")),
        ("/RIDES/7/Receipt", ("GET", "/RIDES/7/Receipt", "rider:new")),
        ("/rides/7/receipt/", ("GET", "/rides/7/receipt/", "rider:new")),
        ("/elsewhere", ("GET", "/elsewhere", None)),
    ],
)
def test_typed_paths_are_read_as_enforcers_read_them(typed: str, tried: tuple[str, str, str | None]) -> None:
    [one] = matched("GET", "/rides/{id}/receipt", typed).typed
    assert (one.method, one.path, one.after) == tried


def test_a_path_that_matches_shows_its_variables() -> None:
    [one] = matched("GET", "/rides/{id}/receipt", "/rides/7/receipt").typed
    assert one.variables == (("id", "7"),)


def test_what_is_typed_is_bounded() -> None:
    found = matched("GET", "/rides", *["/x"] * 100, "")
    assert len(found.typed) == MOST_TYPED
    [one] = matched("GET", "/rides", "/" + "a" * LONGEST_PATH).typed
    assert one.problem


segment = st.sampled_from(["a", "b", "{x}", "{y}"])
templates = st.lists(segment, min_size=1, max_size=3, unique=True).map(lambda parts: "/" + "/".join(parts))
methods = st.sampled_from([*METHODS, "*"])
routes = st.lists(st.tuples(methods, templates), max_size=6, unique=True)


@given(routes, methods, templates)
def test_no_request_is_taken_that_the_examples_do_not_tell(
    registered: list[tuple[str, str]], method: str, path: str
) -> None:
    others = [Route(f"s:{n}", *route) for n, route in enumerate(registered)]
    wanted = Route("s:new", method, path)
    found = route_match(wanted, others)
    before, after = EndpointFinder(others), EndpointFinder([*others, wanted])
    paths = ["/" + "/".join(parts) for n in (1, 2, 3) for parts in _words(n)]
    taken = set()
    for one in paths:
        for verb in METHODS:
            was, now = before.find(verb, one, USUAL), after.find(verb, one, USUAL)
            if was != now:
                taken.add(was)
    assert set(found.taken_from) == taken - {None}


def _words(length: int) -> list[list[str]]:
    if not length:
        return [[]]
    return [[word, *rest] for word in ("a", "b", "zzz") for rest in _words(length - 1)]


@pytest.mark.usefixtures("world")
def test_the_registered_routes_are_those_that_enforcers_get() -> None:
    assert {(route.method, route.path) for route in routes_read()} == {
        ("POST", "/v1/charges"),
        ("GET", "/v1/rides/{id}"),
    }
