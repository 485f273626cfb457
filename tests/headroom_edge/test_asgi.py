"""FastAPI behind the middleware, over real sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from headroom_edge import AsyncLimiter
from headroom_edge.asgi import QuotaMiddleware
from headroom_edge.proxies import TrustedProxies
from headroom_edge.request_guard import Caller, GuardRules
from tests.headroom_edge.adaptive import BACKEND, Learned, learned
from tests.headroom_edge.apps import SERVED_BY, fastapi_app
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import (
    ACME,
    HOURLY,
    STRANGER,
    ZENITH,
    Answer,
    Client,
    publish_world,
    served,
    wait_until_free,
)

Serve = Callable[..., Client]


@pytest.fixture
def serve(store: redis.Redis, valkey_url: str) -> Iterator[Serve]:
    """Serves the rides behind the middleware, with these rules."""
    with ExitStack() as stack:

        def start(**rules: Any) -> Client:
            app = fastapi_app()
            limiter = AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)
            app.add_middleware(QuotaMiddleware, limiter=limiter, rules=GuardRules(**rules))
            return stack.enter_context(served(app))

        yield start


def allowed(answers: list[Answer]) -> list[int]:
    return [answer.status for answer in answers]


def test_it_lets_through_what_the_limit_allows_and_says_how_much_is_left(serve: Serve) -> None:
    rides = serve()
    answers = [rides.get("/v1/rides", authorization=f"Bearer {ACME}") for _ in range(7)]
    assert allowed(answers) == [200] * 5 + [429] * 2
    assert [answer.headers[SERVED_BY.lower()] for answer in answers[:5]] == ["rides:list"] * 5
    assert [answer.headers["ratelimit"].partition(";t=")[0] for answer in answers[:3]] == [
        '"hourly";r=4',
        '"hourly";r=3',
        '"hourly";r=2',
    ]
    assert {answer.headers["ratelimit-policy"] for answer in answers} == {'"hourly";q=5;w=3600'}


def test_a_refusal_is_a_problem_document(serve: Serve) -> None:
    rides = serve(limits_url="https://example.com/{tenant}/limits")
    answer = [rides.get("/v1/rides", x_api_key=ACME) for _ in range(6)][-1]
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert 0 < int(answer.headers["retry-after"]) <= 3_600
    assert problem.pop("detail").startswith("The limit 'hourly' is used up; try again in")
    assert problem == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota exceeded",
        "status": 429,
        "code": "quota-exceeded",
        "violated-policies": ["hourly"],
        "limit": "hourly",
        "reason": "limit",
        "subject": "tenant",
        "limits-url": "https://example.com/acme/limits",
    }


def test_who_has_no_key_is_refused_or_counts_as_the_tenant_for_such(serve: Serve) -> None:
    answer = serve().get("/v1/rides")
    assert (answer.status, answer.json()["code"], answer.headers["www-authenticate"]) == (401, "unauthorized", "Bearer")
    open_to_all = serve(anonymous="visitors")
    assert allowed([open_to_all.get("/v1/rides") for _ in range(6)]) == [200] * 5 + [429]
    assert open_to_all.get("/v1/rides", x_api_key=STRANGER).status == 401


def test_an_authorization_of_another_kind_is_the_applications_own(serve: Serve) -> None:
    rides = serve(anonymous="visitors")
    assert rides.get("/v1/rides", authorization="Bearer eyJhbGciOi").status == 200
    assert (
        rides.get("/v1/rides", authorization="Basic dTpw", x_api_key=ZENITH)
        .headers["ratelimit"]
        .startswith('"hourly";r=4')
    )


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.sweep)])
def test_invented_hops_of_an_untrusted_peer_share_one_bucket(store: redis.Redis, valkey_url: str, count: int) -> None:
    """A1. Straight into the application: the peer is what a server would tell."""
    publish_world(store, limit("each", "fixed_window", "ip", limit=3, window="1h"))
    rules = GuardRules(anonymous="visitors", trusted_proxies=TrustedProxies.parse(["10.0.0.0/8"]))

    async def knock() -> list[int]:
        app = QuotaMiddleware(hello, limiter=AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS), rules=rules)
        found = []
        for start in range(0, count, 500):
            hops = [f"{n >> 8 & 255}.{n & 255}.7.{n % 251}" for n in range(start, start + 500)]
            found += await asyncio.gather(*(status_of(app, hop) for hop in hops))
        await app.limiter.close()
        return found

    statuses = asyncio.run(knock())
    assert (len(statuses), statuses.count(200), statuses.count(429)) == (count, 3, count - 3)


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def status_of(app: QuotaMiddleware, forwarded: str) -> int:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    fields = [(b"x-forwarded-for", forwarded.encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": fields, "client": ("203.0.113.9", 4711)}
    await app(scope, receive, send)
    status: int = sent[0]["status"]
    return status


def test_a_trusted_proxy_tells_clients_apart(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, limit("each", "fixed_window", "ip", limit=1, window="1h"))
    rides = serve(anonymous="visitors", trusted_proxies=TrustedProxies.parse(["127.0.0.1"]))
    answers = [rides.get("/v1/rides", x_forwarded_for=f"6.6.6.6, 203.0.113.{n % 2}") for n in range(4)]
    assert allowed(answers) == [200, 200, 429, 429]


def test_headers_that_name_a_tenant_are_believed_from_trusted_proxies_only(serve: Serve) -> None:
    named = {"tenant_header": "x-tenant", "subject_headers": {"user": "x-user"}}
    assert serve(**named).get("/v1/rides", x_tenant="zenith").status == 401
    behind = serve(**named, trusted_proxies=TrustedProxies.parse(["127.0.0.1"]))
    assert behind.get("/v1/rides", x_tenant="zenith").status == 200
    assert behind.get("/v1/rides", x_tenant="No Such Thing!").status == 403


def test_the_application_may_say_itself_who_calls_and_what(store: redis.Redis, serve: Serve) -> None:
    publish_world(
        store,
        limit("each", "fixed_window", "user", limit=1, window="1h"),
        endpoints={"rides:create": (limit("created", "fixed_window", limit=1, window="1h"),)},
    )

    def identify(scope: Any) -> Caller:
        user = dict(scope["headers"])[b"x-user"].decode()
        return Caller("acme", {"user": user})

    rides = serve(identify=identify, endpoint=lambda scope: "rides:create" if b"new" in scope["query_string"] else None)
    assert allowed([rides.get("/v1/rides", x_user=user) for user in ("ann", "bob", "ann")]) == [200, 200, 429]
    answers = [rides.get("/v1/rides?new", x_user=f"user-{n}") for n in range(2)]
    assert [answer.status for answer in answers] == [200, 429]
    assert answers[1].json()["violated-policies"] == ["created"]


def test_exempt_paths_are_not_judged(serve: Serve) -> None:
    rides = serve(exempt=("/docs", "/openapi.json"))
    assert rides.get("/openapi.json").status == 200
    assert rides.get("/v1/rides").status == 401


def test_a_slot_is_given_back_when_the_answer_ends(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, limit("inflight", "concurrency", limit=1, hold="1h"))
    rides = serve(anonymous="visitors")
    for path, status in [("/v1/rides", 200), ("/stream", 200), ("/broken", 500), ("/nowhere", 404)] * 2:
        assert rides.get(path).status == status


def test_a_shaped_request_waits_for_its_turn(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, limit("paced", "leaky_bucket", rate=20, per="1s", queue=5))
    rides = serve(anonymous="visitors", max_wait_ms=60_000)
    start = time.monotonic()
    assert allowed([rides.get("/v1/rides") for _ in range(4)]) == [200] * 4
    # Never earlier; on a busy machine later.
    assert time.monotonic() - start >= 0.149


def test_nobody_waits_past_a_deadline_and_the_turn_goes_back(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, limit("paced", "leaky_bucket", rate=1, per="1h", queue=2))
    rides = serve(anonymous="visitors", max_wait_ms=60_000, deadline_header="x-timeout-ms")
    assert rides.get("/v1/rides").status == 200
    for _ in range(3):
        late = rides.get("/v1/rides", x_timeout_ms="5")
        assert (late.status, late.json()["reason"]) == (429, "too_late")
        assert 1 <= int(late.headers["retry-after"]) <= 3_600


def test_a_path_without_end_is_refused(serve: Serve) -> None:
    answer = serve().get("/v1/rides/" + "x" * 8_200, x_api_key=ACME)
    assert (answer.status, answer.json()["code"]) == (414, "path-too-long")


def test_the_store_away_follows_what_is_set_for_that() -> None:
    for fail, status, degraded in (("open", 200, "open"), ("closed", 503, "closed")):
        app = fastapi_app()
        app.add_middleware(QuotaMiddleware, limiter=nowhere(fail))
        with served(app) as rides:
            answer = rides.get("/v1/rides", x_api_key=ACME)
        assert (answer.status, answer.headers["headroom-degraded"]) == (status, degraded)
        if status == 503:
            assert json.loads(answer.body)["code"] == "temporary-reduced-capacity"
            assert answer.headers["retry-after"] == "1"


def nowhere(fail: Any) -> AsyncLimiter:
    return AsyncLimiter.from_url("redis://127.0.0.1:1/0", fail=fail)


def test_the_names_of_limits_are_those_of_the_endpoint_that_serves(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, HOURLY, endpoints={"rides:get": (limit("looks", "fixed_window", limit=2, window="1h"),)})
    rides = serve()
    assert (
        rides.get("/v1/rides/7", x_api_key=ACME).headers["ratelimit-policy"]
        == '"hourly";q=5;w=3600, "looks";q=2;w=3600'
    )
    assert rides.get("/v1/rides", x_api_key=ACME).headers["ratelimit-policy"] == '"hourly";q=5;w=3600'


def test_an_adaptive_limit_learns_from_the_answers(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, BACKEND)
    rides = serve(anonymous="visitors")
    for path in ("/v1/rides", "/stream", "/broken", "/nowhere"):
        rides.get(path)
        wait_until_free(store)
    assert learned(store) == Learned(answers=3, drops=0)
