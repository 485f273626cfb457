"""One table of header cases for both renderers: headers.py and headroom/headers.lua. Their problems agree as well."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from config.data_folders import ROOT
from headroom_edge import Check, Decision
from headroom_edge.check import pack
from headroom_edge.decision import Failure, decision_of
from headroom_edge.gateway.environment import PROFILES
from headroom_edge.problems import late, problem_of
from tests.headroom_edge.nginx_lua.world import lua_nginx, needs_lua
from tests.headroom_edge.world import Client

CASES: list[dict[str, Any]] = json.loads((ROOT / "tests" / "fixtures" / "header_cases.json").read_text())
LIMITS_URL = "https://limits.example/{tenant}?a=b"
CHECK = Check("acme", "rides:get")
each_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])

# Gets a reply of the store as Redis writes it, and answers with what a response would carry.
RENDER = """
    location = /render {
        access_by_lua_block { }
        content_by_lua_block {
            local checks, failures = require "headroom.checks", require "headroom.failures"
            local check = { tenant = "acme", endpoint = "rides:get", place = "acme rides:get", cost = "*" }
            local decision
            if ngx.var.http_x_failure then
                decision = failures.decide(check, "unavailable", "as the test wants it", ngx.var.http_x_failure)
            else
                ngx.req.read_body()
                decision = checks.decision(check, (require("headroom.resp").parse(ngx.req.get_body_data(), 1)))
            end
            local profile = require("headroom.settings").PROFILES[ngx.var.http_x_profile]
            for name, value in pairs(require("headroom.headers").render(decision, profile)) do
                ngx.print(name, ": ", value, "\\n")
            end
            local problems = require "headroom.problems"
            local url = "%s"
            ngx.print("\\n", decision.allowed and "" or problems.of(decision, url).body)
            ngx.print("\\n", problems.late(decision, url).body)
        }
    }
""".replace("%s", LIMITS_URL)


def stored(value: Any) -> Any:
    """As hiredis reads it."""
    if isinstance(value, list):
        return [stored(one) for one in value]
    return value.encode() if isinstance(value, str) else value


def resp(value: Any) -> bytes:
    if isinstance(value, list):
        return f"*{len(value)}\r\n".encode() + b"".join(resp(one) for one in value)
    return pack([value])[4:] if isinstance(value, str) else f":{value}\r\n".encode()


def decision(case: dict[str, Any]) -> Decision:
    if case["failure"] is None:
        return decision_of(CHECK, stored(case["reply"]))
    failure = cast("Failure", case["failure"])
    retry_us = 1_000_000 if failure == "closed" else 0
    return Decision(CHECK, failure == "open", "unavailable", "", 0, 0, 0, retry_us, 0, 0, failure=failure)


@each_case
def test_python_writes_the_headers_of_the_table(case: dict[str, Any]) -> None:
    assert decision(case).headers(PROFILES[case["profile"]]) == case["headers"]


@pytest.mark.parametrize("case", [case for case in CASES if "detail" in case], ids=lambda case: case["name"])
def test_limit_that_borrows_says_why_it_denied(case: dict[str, Any]) -> None:
    problem = problem_of(decision(case)).document()
    assert problem["detail"] == case["detail"]
    assert case["name"].endswith(problem["cause"])


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder: Path = tmp_path_factory.mktemp("nginx")
    with lua_nginx(folder, "redis://127.0.0.1:9/0", locations=RENDER) as running:
        yield running.client


@needs_lua
@each_case
def test_lua_writes_the_same_and_refuses_in_the_same_words(case: dict[str, Any], renderer: Client) -> None:
    about = {"x_profile": case["profile"], **({"x_failure": case["failure"]} if case["failure"] else {})}
    answer = renderer.send("POST", "/render", resp(case["reply"] or []), **about)
    fields, problem, too_late = answer.body.decode().rsplit("\n", 2)
    assert dict(line.split(": ", 1) for line in fields.splitlines()) == case["headers"]
    expected = decision(case)
    if not case["reply"] or expected.limit.isidentifier() or not expected.limit:
        assert problem.encode() == (b"" if expected.allowed else problem_of(expected, LIMITS_URL).body())
        assert too_late.encode() == late(expected, LIMITS_URL).body()
