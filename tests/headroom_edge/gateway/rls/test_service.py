"""ShouldRateLimit over a real port: what a descriptor means, and what the answer tells."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import grpc
import pytest
import redis
from google.protobuf.json_format import MessageToDict

from headroom_edge import AsyncLimiter
from headroom_edge.check import COST_MAX
from headroom_edge.decision import Failure
from headroom_edge.gateway.rls.grpcio_server import GrpcioServer
from headroom_edge.gateway.rls.http2_server import Http2Server
from headroom_edge.gateway.rls.messages_pb2 import RateLimitResponse
from headroom_edge.gateway.rls.service import RateLimitService
from headroom_edge.request_guard import Guard, GuardRules
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.gateway.rls.asking import LIST, OK, OVER_LIMIT, RlsClient, fields_of, message_of, serving
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ACME, BANKRUPT, MACHINE, OURS, READER, STRANGER, publish_world
from tests.valkeys import SpareValkey

HOUR = RateLimitResponse.RateLimit.HOUR


@pytest.fixture(scope="module", params=[Http2Server, GrpcioServer])
def running(valkey_url: str, request: pytest.FixtureRequest) -> Iterator[RlsClient]:
    """Both servers, of which grpcio's is the oracle."""
    redis.Redis.from_url(valkey_url).flushall()
    with serving(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS), kind=request.param) as client:
        yield client


@pytest.fixture
def rls(store: redis.Redis, running: RlsClient) -> RlsClient:
    """Everybody has 5 an hour."""
    return running


def test_it_lets_through_what_the_limit_allows_and_tells_why_it_refuses(rls: RlsClient) -> None:
    first, *_, last = [rls.ask(LIST) for _ in range(6)]
    (status,) = first.statuses
    assert (first.overall_code, status.code) == (OK, OK)
    assert (status.current_limit.name, status.current_limit.requests_per_unit, status.current_limit.unit) == (
        "hourly",
        5,
        HOUR,
    )
    assert status.limit_remaining == 4
    assert 0 < status.duration_until_reset.seconds <= 3_600
    assert fields_of(first)["ratelimit-policy"] == '"hourly";q=5;w=3600'
    assert fields_of(first)["ratelimit"].startswith('"hourly";r=4;t=')
    assert first.raw_body == b""
    about = {"tenant": "acme", "limit": "hourly", "revision": 1}
    assert MessageToDict(first.dynamic_metadata) == {**about, "reason": "ok"}

    assert (last.overall_code, last.statuses[0].code, last.statuses[0].limit_remaining) == (OVER_LIMIT, OVER_LIMIT, 0)
    assert 0 < int(fields_of(last)["retry-after"]) <= 3_600
    assert fields_of(last)["content-type"] == "application/problem+json"
    assert json.loads(last.raw_body)["violated-policies"] == ["hourly"]
    assert json.loads(last.raw_body)["status"] == 429
    assert MessageToDict(last.dynamic_metadata) == {**about, "reason": "limit"}


def test_a_method_and_a_path_name_the_endpoint(rls: RlsClient, store: redis.Redis) -> None:
    publish_world(store, endpoints={"rides:get": (limit("one", "fixed_window", limit=9, window="1m"),)})
    for path in ("/v1/rides/7", "/v1//rides/7?x=1", "http://host/v1/rides/7#x"):
        answer = rls.ask({"tenant": "acme", "method": "GET", "path": path})
        assert answer.statuses[0].current_limit.name == "one", path
        assert answer.statuses[0].current_limit.unit == RateLimitResponse.RateLimit.MINUTE
    assert not rls.ask({"tenant": "acme", "method": "GET", "path": "/elsewhere"}).statuses[0].current_limit.name


def test_a_window_that_envoy_has_no_unit_for_has_none(rls: RlsClient, store: redis.Redis) -> None:
    publish_world(store, limit("five", "fixed_window", limit=9, window="5m"))
    assert rls.ask(LIST).statuses[0].current_limit.unit == RateLimitResponse.RateLimit.UNKNOWN


def test_the_other_entries_are_dimensions(rls: RlsClient, store: redis.Redis) -> None:
    publish_world(store, limit("each", "fixed_window", "ip+plan", limit=1, window="1h"))
    entries = [("1.1.1.1", "a"), ("1.1.1.1", "b"), ("2.2.2.2", "a"), ("1.1.1.1", "a")]
    answers = [rls.ask({**LIST, "remote_address": ip, "plan": plan}) for ip, plan in entries]
    assert [answer.overall_code for answer in answers] == [OK, OK, OK, OVER_LIMIT]


def test_an_api_key_stands_for_its_owner_and_is_a_dimension(rls: RlsClient, store: redis.Redis) -> None:
    publish_world(store, limit("each", "fixed_window", "key", limit=1, window="1h"))
    for sent in (ACME, f"Bearer {ACME}"):
        answer = rls.ask({"api_key": sent, "endpoint": "rides:list", "key": "forged"})
        assert MessageToDict(answer.dynamic_metadata)["tenant"] == "acme"
    assert answer.overall_code == OVER_LIMIT


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (STRANGER, "unauthorized"),
        ("nonsense", "unauthorized"),
        (READER, "scope-missing"),
        (OURS, "own-tenant"),
        (MACHINE, "tenant-missing"),
        (BANKRUPT, "tenant-suspended"),
    ],
)
def test_a_bad_key_is_refused(rls: RlsClient, key: str, code: str) -> None:
    answer = rls.ask({"api_key": key, "endpoint": "rides:list"})
    assert (answer.overall_code, answer.statuses[0].code) == (OVER_LIMIT, OVER_LIMIT)
    assert json.loads(answer.raw_body)["code"] == code
    assert json.loads(answer.raw_body)["status"] == 429, "as Envoy answers"


def test_a_bad_key_is_refused_before_another_descriptor_is_charged(rls: RlsClient) -> None:
    answer = rls.ask(LIST, {"api_key": STRANGER, "endpoint": "rides:list"})
    assert [status.code for status in answer.statuses] == [RateLimitResponse.UNKNOWN, OVER_LIMIT]
    assert rls.ask(LIST).statuses[0].limit_remaining == 4


@pytest.mark.parametrize("tenant", [None, "", "Nobody At All", "-", "é", "x" * 500])
def test_a_missing_tenant_is_the_unknown_tenant(rls: RlsClient, tenant: str | None) -> None:
    named = {} if tenant is None else {"tenant": tenant}
    answer = rls.ask({**named, "endpoint": "rides:list"})
    assert answer.overall_code == OVER_LIMIT
    assert json.loads(answer.raw_body)["code"] == "unknown-tenant"
    assert MessageToDict(answer.dynamic_metadata)["reason"] == "unknown_tenant"


def test_where_anonymous_requests_have_a_tenant_a_missing_one_is_that(store: redis.Redis, valkey_url: str) -> None:
    limiter = AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)
    with serving(limiter, GuardRules(anonymous="visitors")) as rls:
        answer = rls.ask({"endpoint": "rides:list"})
        assert (answer.overall_code, MessageToDict(answer.dynamic_metadata)["tenant"]) == (OK, "visitors")
        assert rls.ask({"tenant": "Visitors", "endpoint": "rides:list"}).overall_code == OVER_LIMIT


def test_nobody_uses_up_the_installations_own_limits(rls: RlsClient) -> None:
    answer = rls.ask({"tenant": "headroom", "endpoint": "rides:list"})
    assert json.loads(answer.raw_body)["code"] == "own-tenant"


def test_the_cost_is_the_descriptors_or_the_requests_or_the_endpoints(rls: RlsClient, store: redis.Redis) -> None:
    publish_world(store, limit("units", "fixed_window", limit=100, window="1h", unit="cost"))

    def left(costs: tuple[int | None, ...] = (), hits_addend: int = 0) -> int:
        return rls.ask(LIST, costs=costs, hits_addend=hits_addend).statuses[0].limit_remaining

    assert left() == 99, "the request's plain 0 means that it was not set"
    assert left(hits_addend=9) == 90
    assert left((20,), hits_addend=9) == 70
    assert left((0,), hits_addend=9) == 69, "what a check would leave"
    assert left() == 69, "a peek has charged nothing"


def test_if_one_descriptor_denies_the_others_are_refunded(rls: RlsClient, store: redis.Redis) -> None:
    publish_world(
        store,
        limit("many", "fixed_window", limit=100, window="1h"),
        endpoints={"rides:get": (limit("none", "fixed_window", limit=1, window="1h"),)},
    )
    get = {"tenant": "acme", "endpoint": "rides:get"}
    assert rls.ask(LIST, get).overall_code == OK
    answer = rls.ask(LIST, get, {**LIST, "tenant": "zenith"})
    assert (answer.overall_code, [status.code for status in answer.statuses]) == (OVER_LIMIT, [OK, OVER_LIMIT, OK])
    assert json.loads(answer.raw_body)["limit"] == "none"
    assert MessageToDict(answer.dynamic_metadata)["limit"] == "none"
    lefts = [rls.ask({**LIST, "tenant": name}).statuses[0].limit_remaining for name in ("acme", "zenith")]
    assert lefts == [97, 99]


async def test_a_shaped_request_waits_for_its_turn(store: redis.Redis, valkey_url: str) -> None:
    publish_world(store, limit("queue", "leaky_bucket", rate=1, per="1h", queue=100))
    service = RateLimitService(Guard(GuardRules(max_wait_ms=7_200_000)))
    message = message_of(LIST)
    async with AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
        waits_s = [(await limiter.converse(lambda core: service.answer(core, message))).wait_s for _ in range(3)]
    assert [round(wait_s / 3_600) for wait_s in waits_s] == [0, 1, 2]


def test_a_request_that_would_wait_too_long_is_refused_and_refunded(rls: RlsClient, store: redis.Redis) -> None:
    publish_world(store, limit("slow", "leaky_bucket", rate=1, per="1h", queue=100))
    assert rls.ask(LIST).overall_code == OK
    for _ in range(2):
        late = rls.ask(LIST)
        assert (late.overall_code, late.statuses[0].code) == (OVER_LIMIT, OVER_LIMIT)
        assert json.loads(late.raw_body)["reason"] == "too_late"
        assert 0 < int(fields_of(late)["retry-after"]) <= 3_600, "the one before it was refunded"


def test_a_deadline_bounds_the_wait(store: redis.Redis, valkey_url: str) -> None:
    publish_world(store, limit("slow", "leaky_bucket", rate=1, per="1h", queue=100))
    limiter = AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)
    with serving(limiter, GuardRules(max_wait_ms=600_000_000)) as rls:
        assert rls.ask(LIST).overall_code == OK
        assert json.loads(rls.ask(LIST, timeout=60).raw_body)["reason"] == "too_late"


INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"tenant": "acme"}, "the entry endpoint is missing; send it, or method and path."),
        ({"tenant": "acme", "path": "/v1/rides"}, "the entry endpoint is missing; send it, or method and path."),
        ({**LIST, "ip": "1", "remote_address": "2"}, "the entry 'ip' is there twice; send each once."),
        ({**LIST, "X-User": "7"}, "'X-User' is not a valid dimension; use names such as ip, key or user."),
        ({**LIST, "holder": "7"}, "'holder' is not a valid dimension; use names such as ip, key or user."),
        ({**LIST, **{f"d{n}": "x" for n in range(32)}}, "subject must have at most 31 dimensions."),
    ],
)
def test_a_descriptor_that_cannot_be_read_gets_one_sentence(
    rls: RlsClient, entries: dict[str, str], sentence: str
) -> None:
    assert rls.refused(entries) == (INVALID, f"descriptors[0]: {sentence}")


@pytest.mark.parametrize(
    ("entries", "key", "sentence"),
    [
        ({"endpoint": "x" * 201}, "endpoint", "endpoint is over 200 characters; shorten it."),
        ({"endpoint": ""}, "endpoint", "endpoint, or method and path, must not be empty; send a value."),
        (
            {"endpoint": "", "method": "", "path": "/v1"},
            "endpoint",
            "endpoint, or method and path, must not be empty; send a value.",
        ),
        ({"user": "x" * 1_025}, "user", "user is over 1,024 characters; shorten it."),
        ({"user": b"\xff"}, "user", "user is not valid UTF-8; send valid text."),
        ({"tenant": b"\xff"}, "tenant", "tenant is not valid UTF-8; send valid text."),
        ({"api_key": b"\xff"}, "api_key", "api_key is not valid UTF-8; send valid text."),
        (
            {"endpoint": "", "method": "GET", "path": "/" + "x" * 8_192},
            "path",
            "The path is over 8,192 characters; shorten it.",
        ),
    ],
)
def test_a_value_that_a_client_may_have_sent_is_refused_and_never_a_fault(
    rls: RlsClient, entries: dict[str, str | bytes], key: str, sentence: str
) -> None:
    """Envoy may let requests through on a fault: a client could pass by sending nonsense."""
    answer = rls.ask({**LIST, **entries})
    problem = json.loads(answer.raw_body)
    assert (answer.overall_code, problem["code"], problem["field"]) == (OVER_LIMIT, "invalid-field", key)
    assert problem["detail"] == sentence


def test_a_cost_over_the_maximum_is_refused(rls: RlsClient) -> None:
    for cost in ({"hits_addend": COST_MAX + 1}, {"costs": (COST_MAX + 1,)}):
        problem = json.loads(rls.ask(LIST, **cost).raw_body)
        assert problem["detail"] == f"The cost is {COST_MAX + 1}; send at most 1,000,000,000."
    answer = rls.ask(LIST, LIST, costs=(1, 2**63))
    assert [status.code for status in answer.statuses] == [RateLimitResponse.UNKNOWN, OVER_LIMIT]
    assert rls.ask(LIST).statuses[0].limit_remaining == 4, "nothing was charged"


def test_what_is_wrong_with_envoys_configuration_is_logged_once_in_a_while(
    store: redis.Redis, valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)) as rls:
        for _ in range(3):
            rls.refused({"tenant": "acme"})
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith("descriptors[0]: the entry endpoint is missing; send it, or method and path.")


def test_the_number_of_descriptors_is_bounded(rls: RlsClient) -> None:
    for descriptors in ([], [LIST] * 101):
        sentence = f"The request has {len(descriptors)} descriptors; send 1 to 100."
        assert rls.refused(*descriptors) == (INVALID, sentence)


@pytest.mark.parametrize(
    "message", [b"\xff", b"\x12\x08\x0a\x06\x0a\x04ten\xff"], ids=["no message", "a key that is not UTF-8"]
)
def test_what_is_no_request_gets_one_sentence(rls: RlsClient, message: bytes) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        rls.send(message)
    assert refusal.value.code() == INVALID
    assert refusal.value.details() == "The message is not a RateLimitRequest, or a key in it is not UTF-8."


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_without_the_store_the_limits_own_failure_mode_decides(
    spare_valkey: Callable[..., SpareValkey], mode: str
) -> None:
    server = spare_valkey()
    with server.client() as client:
        publish_world(client, limit("hourly", "fixed_window", limit=5, window="1h", on_failure=mode))
    default: Failure = "open" if mode == "closed" else "closed"
    with serving(AsyncLimiter.from_url(server.url, budget_ms=AMPLE_MS, fail=default)) as rls:
        rls.ask(LIST)
        server.kill()
        if mode == "closed":
            sentence = "Limits cannot be checked at the moment; try again in a second."
            assert rls.refused(LIST) == (grpc.StatusCode.UNAVAILABLE, sentence)
        else:
            answer = rls.ask(LIST)
            assert (answer.overall_code, fields_of(answer)) == (OK, {"headroom-degraded": "open"})


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_a_key_that_cannot_be_looked_up_follows_the_servers_failure_mode(
    spare_valkey: Callable[..., SpareValkey], mode: str
) -> None:
    server = spare_valkey()
    server.kill()
    with serving(AsyncLimiter.from_url(server.url, fail=mode)) as rls:  # type: ignore[arg-type] # it is one of them
        asked = {"api_key": ACME, "endpoint": "rides:list"}
        if mode == "closed":
            assert rls.refused(asked)[0] == grpc.StatusCode.UNAVAILABLE
        else:
            assert rls.ask(asked).overall_code == OK


def test_where_tokens_are_needed_each_call_has_one(store: redis.Redis, valkey_url: str) -> None:
    with serving(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS), tokens=True) as rls:
        missing = "The token is missing; send authorization: Bearer hr_…."
        assert rls.refused(LIST) == (grpc.StatusCode.UNAUTHENTICATED, missing)
        unknown = "The token is unknown, expired or revoked; send a valid one."
        assert rls.refused(LIST, token=STRANGER) == (grpc.StatusCode.UNAUTHENTICATED, unknown)
        assert rls.refused(LIST, token=READER)[0] == grpc.StatusCode.PERMISSION_DENIED
        assert rls.ask(LIST, token=MACHINE).overall_code == OK
        assert rls.ask(LIST, token=ACME).overall_code == OK
        foreign = "This token belongs to tenant acme; send descriptors of that tenant, or another token."
        assert rls.refused({**LIST, "tenant": "zenith"}, token=ACME) == (grpc.StatusCode.PERMISSION_DENIED, foreign)


def test_an_entry_lowers_the_priority_of_a_request(rls: RlsClient, store: redis.Redis) -> None:
    publish_world(store, limit("org", "pool", rate=1, per="1h", burst=8))
    codes = [rls.ask({**LIST, "priority": "sheddable"}).overall_code for _ in range(8)]
    assert codes == [OK] * 4 + [OVER_LIMIT] * 4
    # It cannot be raised: the endpoint is normal.
    assert [rls.ask({**LIST, "priority": "critical"}).overall_code for _ in range(3)] == [OK, OK, OVER_LIMIT]
    # The value may be a client's, so it is refused and not a fault.
    answer = rls.ask({**LIST, "priority": "urgent"})
    assert answer.overall_code == OVER_LIMIT
    assert json.loads(answer.raw_body)["field"] == "priority"
