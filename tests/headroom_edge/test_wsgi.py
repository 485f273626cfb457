"""Flask behind the middleware, over real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import redis

from headroom_edge import Limiter
from headroom_edge.proxies import TrustedProxies
from headroom_edge.request_guard import GuardRules
from headroom_edge.wsgi import QuotaMiddleware
from tests.headroom_edge.adaptive import BACKEND, Learned, learned
from tests.headroom_edge.apps import flask_app
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ACME, Client, publish_world, served_wsgi, wait_until_free

Serve = Callable[..., Client]


@pytest.fixture
def serve(store: redis.Redis, valkey_url: str) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(**rules: Any) -> Client:
            app = flask_app()
            limiter = stack.enter_context(Limiter.from_url(valkey_url, budget_ms=AMPLE_MS))
            app.wsgi_app = QuotaMiddleware(app.wsgi_app, limiter=limiter, rules=GuardRules(**rules))  # type: ignore[method-assign]
            return stack.enter_context(served_wsgi(app))

        yield start


def test_it_lets_through_what_the_limit_allows_and_says_how_much_is_left(serve: Serve) -> None:
    rides = serve()
    answers = [rides.get("/v1/rides", authorization=f"Bearer {ACME}") for _ in range(7)]
    assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
    assert answers[0].headers["served-by"] == "rides:list"
    assert answers[0].headers["ratelimit"].startswith('"hourly";r=4')
    assert answers[-1].headers["content-type"] == "application/problem+json"
    assert answers[-1].json()["violated-policies"] == ["hourly"]
    assert int(answers[-1].headers["retry-after"]) > 0


def test_the_endpoint_is_found_by_its_path(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, endpoints={"rides:cancel": (limit("few", "fixed_window", limit=1, window="1h"),)})
    rides = serve()
    paths = ["/v1/rides/caf%C3%A9/cancel", "/v1/rides/8/cancel", "/v1/rides/9"]
    answers = [rides.post(path, b"", x_api_key=ACME) for path in paths]
    assert [answer.status for answer in answers] == [200, 429, 405]


def test_only_a_trusted_proxy_is_believed(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, limit("each", "fixed_window", "ip", limit=1, window="1h"))
    hops = [f"203.0.113.{number}" for number in range(3)]
    alone = serve(anonymous="visitors")
    assert [alone.get("/v1/rides", x_forwarded_for=hop).status for hop in hops] == [200, 429, 429]
    behind = serve(anonymous="visitors", trusted_proxies=TrustedProxies.parse(["127.0.0.1"]))
    assert [behind.get("/v1/rides", x_forwarded_for=hop).status for hop in hops] == [200, 200, 200]


def test_a_slot_is_given_back_when_the_answer_ends(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, limit("inflight", "concurrency", limit=1, hold="1h"))
    rides = serve(anonymous="visitors")
    for path, status in [("/v1/rides", 200), ("/stream", 200), ("/broken", 500), ("/nowhere", 404)] * 2:
        assert rides.get(path).status == status
        wait_until_free(store)


def test_a_slot_is_given_back_when_the_application_fails(store: redis.Redis, valkey_url: str) -> None:
    publish_world(store, limit("inflight", "concurrency", limit=1, hold="1h"))

    def broken(environ: Any, start_response: Any) -> Any:
        raise RuntimeError("as it was meant to")

    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
        app = QuotaMiddleware(broken, limiter=limiter, rules=GuardRules(anonymous="visitors"))
        for _ in range(3):
            with pytest.raises(RuntimeError, match="as it was meant to"):
                app({"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": "203.0.113.9"}, lambda *_: None)


def test_a_shaped_request_that_would_be_late_is_refused(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, limit("paced", "leaky_bucket", rate=1, per="1h", queue=3))
    rides = serve(anonymous="visitors", max_wait_ms=5)
    assert [rides.get("/v1/rides").status for _ in range(3)] == [200, 429, 429]


def test_an_adaptive_limit_learns_from_the_answers(store: redis.Redis, serve: Serve) -> None:
    publish_world(store, BACKEND)
    rides = serve(anonymous="visitors")
    for path in ("/v1/rides", "/stream", "/broken", "/nowhere"):
        rides.get(path)
        wait_until_free(store)
    assert learned(store) == Learned(answers=3, drops=0)


def body(error: type[Exception] | None) -> Iterator[bytes]:
    yield from (b"0", b"1")
    if error is not None:
        raise error
    yield b"2"


def answer_of(limiter: Limiter, content: Any) -> Any:
    """What a server gets from the middleware."""

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        start("200 OK", [])
        return content

    guarded = QuotaMiddleware(app, limiter=limiter, rules=GuardRules(anonymous="visitors"))
    return guarded({"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/rides"}, lambda *_: None)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, Learned(1, 0)), (TimeoutError, Learned(0, 1)), (RuntimeError, Learned(0, 0))],
    ids=["whole", "time-out", "bug"],
)
def test_a_body_that_fails_midway_is_no_answer(
    store: redis.Redis, valkey_url: str, error: type[Exception] | None, outcome: Learned
) -> None:
    publish_world(store, BACKEND)
    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
        answer = answer_of(limiter, body(error))
        with suppress(TimeoutError, RuntimeError):
            assert list(answer) == [b"0", b"1", b"2"]
        answer.close()
    assert learned(store) == outcome


def test_nothing_is_learned_from_a_client_that_left_midway(store: redis.Redis, valkey_url: str) -> None:
    publish_world(store, BACKEND)
    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
        answer = answer_of(limiter, body(None))
        assert next(iter(answer)) == b"0"
        answer.close()
    assert learned(store) == Learned(0, 0)


def test_a_body_in_one_piece_is_answered_when_the_service_returns_it(store: redis.Redis, valkey_url: str) -> None:
    """A server may drop it unread, as for HEAD: the service has done its work."""
    publish_world(store, BACKEND)
    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
        answer_of(limiter, [b"all of it"]).close()
    assert learned(store) == Learned(1, 0)
