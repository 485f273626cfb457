from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import compile_path

from headroom_edge.plan.paths import (
    AS_ROUTED,
    AS_STARLETTE,
    USUAL,
    EndpointFinder,
    PathReading,
    is_below,
    split_path,
    target_path,
    unquoted,
)
from headroom_edge.plan.routes import Route, SplitPath
from tests.headroom_edge.plan.test_routes import best_ms
from tests.headroom_edge.world import ROUTES_OF_RIDES

FINDER = EndpointFinder(ROUTES_OF_RIDES)


@pytest.mark.parametrize(
    ("path", "segments", "slash"),
    [
        ("/", [], False),
        ("//", [], False),
        ("/v1/rides", ["v1", "rides"], False),
        ("/v1/rides/", ["v1", "rides"], True),
        ("//v1///rides", ["v1", "rides"], False),
        ("/v1/./rides", ["v1", "rides"], False),
        ("/v1/x/../rides", ["v1", "rides"], False),
        ("/v1/x/%2e%2E/rides", ["v1", "rides"], False),
        ("/v1/x//../rides", ["v1", "rides"], False),
        ("/../../v1/rides", ["v1", "rides"], False),
        ("/v1/rides/..", ["v1"], True),
        ("/v1/rides/.", ["v1", "rides"], True),
        ("/v1%2Frides", ["v1", "rides"], False),
        ("/v1/r%69des", ["v1", "rides"], False),
        ("/v1/rides;x=1", ["v1", "rides;x=1"], False),
        ("/v1/caf%C3%A9", ["v1", "café"], False),
        ("/v1/%", ["v1", "%"], False),
        ("/v1/%zz", ["v1", "%zz"], False),
        ("/v1/%252e", ["v1", "%2e"], False),
    ],
)
def test_the_usual_server_reads_a_path_like_this(path: str, segments: list[str], slash: bool) -> None:
    assert split_path(path, USUAL) == SplitPath(segments, slash)


@given(st.text(alphabet="%=0aF/2é_\n ", max_size=40) | st.text(max_size=40))
def test_escapes_are_decoded_as_everywhere(text: str) -> None:
    assert unquoted(text) == unquote(text, errors="surrogateescape")


def test_a_router_in_python_takes_the_path_as_it_comes() -> None:
    assert split_path("//v1/./%2e/x;y/", AS_ROUTED) == SplitPath(["", "v1", ".", "%2e", "x;y"], slash=True)


def test_an_encoded_slash_may_stay_in_its_segment() -> None:
    reading = PathReading(joins_encoded_slash=True)
    assert split_path("/v1/rides/a%2Fb", reading) == SplitPath(["v1", "rides", "a/b"])


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a?x=/b", "/a"),
        ("http://host/a/b?c", "/a/b"),
        ("http://host", "/"),
        ("http://host?/a", "/"),
        ("http://host#/a", "/"),
        ("?x=1", "/"),
        ("*", "*"),
        ("/a://b", "/a://b"),
        ("/pay#x", "/pay"),
        ("/pay#x?y", "/pay"),
        ("/pay?x#y", "/pay"),
        ("/pay%23x", "/pay%23x"),
        ("pay", "/pay"),
    ],
)
def test_only_the_path_of_a_target_counts(target: str, path: str) -> None:
    assert target_path(target) == path


def test_a_server_may_keep_the_hash_in_its_path() -> None:
    reading = PathReading(keeps_hash=True)
    assert target_path("/v1/rides/status#x?y", reading) == "/v1/rides/status#x"
    assert FINDER.find("GET", "/v1/rides/status#x", reading) == "rides:get"
    assert FINDER.find("GET", "/v1/rides#x", reading) == "rides:list"


@pytest.mark.parametrize("method", ["post", "Post", "pOST", " POST "])
def test_no_spelling_of_a_method_escapes(method: str) -> None:
    assert FINDER.find(method, "/v1/rides", USUAL) == "rides:create"
    assert FINDER.find(method, "/v1/rides/7/cancel", AS_ROUTED) == "rides:cancel"


def test_an_invented_method_is_counted_where_its_path_is() -> None:
    assert FINDER.find("BREW", "/v1/rides/7/cancel", USUAL) == "rides:cancel"
    assert FINDER.find("BREW", "/v1/rides", USUAL) == "rides:list"
    assert FINDER.find("BREW", "/files/x", USUAL) == "files:any"
    # A method that endpoints may have is not invented: nobody declared it here.
    assert FINDER.find("DELETE", "/v1/rides", USUAL) is None


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/healthz", True),
        ("/healthz/live", True),
        ("/healthz/a..b", True),
        ("/v1/rides", False),
        ("/healthz/../v1/rides", False),
        ("/healthz/%2e%2E/v1/rides", False),
        ("/healthz/%252e./v1/rides", False),
        ("/healthz\\..\\v1/rides", False),
        ("/healthz/..;x/v1/rides", False),
        ("/healthz/..", False),
    ],
)
def test_dots_do_not_lead_out_of_an_exempt_path(path: str, below: bool) -> None:
    assert is_below(path, ("/healthz",)) is below


@pytest.mark.parametrize("reading", [USUAL, AS_ROUTED])
@pytest.mark.parametrize("end", ["\n", "%0A", "%20", "%09", "/%0a"])
def test_white_space_at_the_end_does_not_escape(end: str, reading: PathReading) -> None:
    assert compile_path("/v1/rides")[0].match("/v1/rides\n"), "Starlette serves it"
    assert FINDER.find("POST", f"/v1/rides{end}", reading) == FINDER.find("POST", "/v1/rides", reading) is not None


WITH_SLASH = EndpointFinder(
    [
        Route("home", "GET", "/"),
        Route("page", "GET", "/{name}"),
        Route("items:list", "GET", "/items/"),
        Route("items:get", "GET", "/items/{id}"),
    ]
)


@pytest.mark.parametrize("reading", [USUAL, AS_STARLETTE])
def test_a_newline_at_the_end_is_counted_as_starlette_serves_it(reading: PathReading) -> None:
    end = "%0A" if reading.decodes else "\n"
    assert FINDER.find("GET", f"/v1/rides/status{end}", reading) == "rides:status"
    assert FINDER.find("GET", f"/v1/rides/7{end}", reading) == "rides:get"
    assert FINDER.find("GET", f"/v1/rides/{end}", reading) == "rides:get", "a ride with this name"
    assert FINDER.find("GET", f"/v1/rides/status{end}{end}", reading) == "rides:get", "it drops one, not two"
    assert FINDER.find("GET", f"/v1/rides/status{end}/", reading) == "rides:get", "it is not at the end"
    assert compile_path("/items/")[0].match("/items/\n"), "Starlette serves it"
    assert WITH_SLASH.find("GET", f"/items/{end}", reading) == "items:list"
    assert WITH_SLASH.find("GET", f"/{end}", reading) == "home"


def test_a_newline_may_stay_in_the_path() -> None:
    """As Flask and Django have it."""
    assert FINDER.find("GET", "/v1/rides/status\n", AS_ROUTED) == "rides:get"
    assert FINDER.find("GET", "/v1/rides/status%0A", PathReading(drops_newline=False)) == "rides:get"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/rides",
        "//v1//rides",
        "/v1/./rides",
        "/x/../v1/rides",
        "/x/%2e%2e/v1/rides",
        "/x/%252e%252e/v1/rides",
        "/v1/rides;x=1",
        "/v1;a/rides;b",
        "/V1/Rides",
        "/v1%2Frides",
        "/v1%2frides/",
        "/v1/rides%3bx",
        "/v1/rides%253Bx",
        "/v1/rides%23x",
        "/v1/rides%3fx",
        "/v1/rides%2523x",
        "/v1\\rides",
        "/v1%5Crides",
        "v1/rides",
        "http://host/v1/rides",
    ],
)
@pytest.mark.parametrize("reading", [USUAL, PathReading(drops_parameters=True, ignores_case=True)])
def test_no_spelling_escapes_the_policy_of_its_endpoint(path: str, reading: PathReading) -> None:
    assert FINDER.find("GET", path, reading) == "rides:list"


def test_the_servers_own_reading_comes_first() -> None:
    assert FINDER.find("POST", "/v1/rides/5%2Fcancel", USUAL) == "rides:cancel"
    assert FINDER.find("GET", "/files/a%2Fb", PathReading(joins_encoded_slash=True)) == "files:any"
    assert FINDER.find("GET", "/v1/rides/STATUS", USUAL) == "rides:get"
    assert FINDER.find("GET", "/v1/rides/STATUS", PathReading(ignores_case=True)) == "rides:status"
    assert FINDER.find("GET", "/v1/rides/.", USUAL) == "rides:list"
    assert FINDER.find("GET", "/v1/rides/.", PathReading(resolves_dots=False)) == "rides:get"


@pytest.mark.parametrize("path", ["/v1/rides/../cancel", "/v1/rides/%2e%2e/cancel", "/v1/rides/%2E/cancel"])
def test_dots_may_be_a_variable_where_they_lead_nowhere(path: str) -> None:
    assert FINDER.find("POST", path, USUAL) == "rides:cancel"


@pytest.mark.parametrize("path", ["", "*", "/v1/ride", "/v1/rides/1/2/3", "\x00"])
def test_what_is_nobodys_is_nobodys(path: str) -> None:
    assert FINDER.find("GET", path, USUAL) is None


EIGHT_KILOBYTES = {
    "slashes": "/" * 8_192,
    "segments": "/" + "a/" * 4_095,
    "dots": "/" + "../" * 2_730,
    "encoded dots": "/" + "%2e%2e%2f" * 910,
    "encoded slashes": "/" + "%2f" * 2_730,
    "encoded percent": "/" + "%25" * 2_730,
    "bare percent": "/" + "%" * 8_191,
    "no escapes": "/" + "%z" * 4_095,
    "some escapes": "/" + "%41a" * 2_047,
    "letters": "/v1/rides/" + "%41" * 2_727,
    "semicolons": "/" + ";" * 8_191,
    "parameters": "/" + ";/" * 4_095,
    "one segment": "/v1/rides/" + "x" * 8_182,
    "odd": "/" + "\ufffd" * 8_191,
}


@pytest.mark.parametrize("path", EIGHT_KILOBYTES.values(), ids=EIGHT_KILOBYTES)
def test_a_long_path_costs_no_more_than_its_length(path: str) -> None:
    """Eight times the length may cost eight times the work and some slack; 64 times would be a weapon."""
    assert len(path) <= 8_192
    assert best_ms(lambda: find_anew(path)) <= 32 * best_ms(lambda: find_anew(path[: len(path) // 8]))


def find_anew(path: str) -> None:
    unquoted.cache_clear()
    FINDER.find("GET", path, USUAL)
