"""The programs of docs/fcall.md in Go, Node and Java, on one table of cases, against a real Valkey.

They are sweeps, because compilers and package managers take longer than the cases.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import redis

from headroom_edge import Limiter
from tests.headroom_edge.fcall.programs import Answer, Asker, Program, build
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import PATIENCE_SECONDS, publish_world
from tests.valkeys import SpareValkey

AMPLE_MS = 60_000
SHORT_MS = 300
HOUR_US = 3_600_000_000
FIVE = limit("five", "fixed_window", "key", limit=5, window="1h", unit="cost")
OPEN = limit("open-plan", "fixed_window", limit=1_000, window="1h", on_failure="open")
CLOSED = limit("closed-plan", "fixed_window", limit=1_000, window="1h", on_failure="closed")
QUEUE = limit("queue", "leaky_bucket", rate=1, per="1m", queue=5)

pytestmark = [pytest.mark.sweep]


@dataclass(frozen=True)
class Case:
    name: str
    expected: str  # the reason, or how an error begins
    tenant: str = "acme"
    endpoint: str = "rides:get"
    cost: str = "1"
    subject: dict[str, str] = field(default_factory=dict)
    used: int = 0  # by the SDK on the same subject, before the program asks


CASES = [
    Case("allowed", "ok", subject={"key": "a"}),
    Case("allowed as the last one", "ok", subject={"key": "b"}, used=4),
    Case("denied, and when to come back", "limit", subject={"key": "c"}, used=5),
    Case("without the dimension", "ok"),
    Case("the endpoint's own cost", "ok", cost="*", subject={"key": "d"}),
    Case("a cost above the quota", "cost_too_big", cost="6", subject={"key": "e"}),
    Case("a cost that is no cost", "HRCOST", cost="0"),
    Case("too many dimensions", "HRARGS", subject={f"d{number}": "x" for number in range(33)}),
    Case("a tenant that nobody knows", "unknown_tenant", tenant="nobody"),
    Case("a suspended tenant", "suspended", tenant="bankrupt"),
    Case("an endpoint that nobody registered", "ok", endpoint="no:such", subject={"key": "f"}),
    Case("UTF-8", "limit", subject={"key": "größe ☂ 🚲"}, used=5),
    Case("control characters, quotes and a NUL", "limit", subject={"key": "\x00\r\n\t\"'\\$5\r\n"}, used=5),
    Case("an empty value", "limit", subject={"key": ""}, used=5),
    Case("a long value", "limit", subject={"key": "x" * 10_000}, used=5),
]
TENANTS = ["acme", "zenith", "blue-line", "a", "tenant-1", "tenant-99999", "x" * 63, "größe", ""]


# One process builds a language's program for all of its tests.
GO, NODE, JAVA = (pytest.param(name, marks=pytest.mark.xdist_group(f"fcall-{name}")) for name in ("go", "node", "java"))


@pytest.fixture(scope="module", params=[GO, NODE, JAVA])
def language(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def program(language: str, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return build(language, tmp_path_factory.mktemp(language))


@pytest.fixture(scope="module")
def spare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpareValkey]:
    with SpareValkey(tmp_path_factory.mktemp("valkey") / "v") as valkey:
        yield valkey


@pytest.fixture
def store(program: Program, spare: SpareValkey) -> Iterator[SpareValkey]:
    """Published anew; running again, whatever the test before has done to it."""
    with spare.client() as client:
        publish(client)
    yield spare
    spare.resume()


def publish(client: redis.Redis) -> None:
    client.flushall()
    publish_world(client, FIVE, endpoints={"rides:list": (OPEN,), "rides:create": (CLOSED,), "rides:status": (QUEUE,)})


def test_every_case_is_decided_as_the_table_says(program: Program, store: SpareValkey) -> None:
    with (
        Limiter.from_url(store.url, budget_ms=AMPLE_MS) as sdk,
        program.running(store.url, budget_ms=AMPLE_MS, fail="closed") as asker,
    ):
        for case in CASES:
            for _ in range(case.used):
                assert sdk.check(tenant=case.tenant, endpoint=case.endpoint, subject=case.subject).allowed
            told = asker.check(case.tenant, case.endpoint, case.cost, case.subject)
            assert (told.error or told.reason).startswith(case.expected), case.name
            assert told.allowed == (case.expected == "ok"), case.name
            assert retry_fits(told), case.name


def retry_fits(told: Answer) -> bool:
    """Only a denial by a window ends with time; a retry is not asked of an error."""
    if told.reason == "limit":
        return 0 < told.retry_us <= HOUR_US
    return told.retry_us == (-1 if told.reason in ("cost_too_big", "unknown_tenant", "suspended") else 0)


# Java's program takes strings, which are always text.
@pytest.mark.parametrize("language", [GO, NODE], indirect=True, scope="module")
def test_bytes_that_are_no_text_arrive_as_they_are(program: Program, store: SpareValkey) -> None:
    with program.running(store.url, budget_ms=AMPLE_MS, fail="closed") as asker:
        answers = [asker.check("acme", "rides:get", "1", {"key": raw}) for raw in 6 * [b"\xff"] + 5 * [b"\xfe"]]
    assert [told.allowed for told in answers] == 5 * [True] + [False] + 5 * [True]


def test_a_request_that_is_queued_is_told_to_wait(program: Program, store: SpareValkey) -> None:
    with program.running(store.url, budget_ms=AMPLE_MS, fail="closed") as asker:
        first, second = (asker.check("acme", "rides:status") for _ in range(2))
    assert (first.allowed, first.wait_us) == (True, 0)
    assert second.allowed
    assert 0 < second.wait_us <= 60_000_000


def test_the_shard_is_the_crc_32_of_the_tenant(program: Program, store: SpareValkey) -> None:
    with program.running(store.url, budget_ms=AMPLE_MS, fail="closed") as asker:
        shards = [asker.check(tenant, "rides:get").shard for tenant in TENANTS]
    assert shards == [f"hr:{{{zlib.crc32(tenant.encode()) % 64}}}" for tenant in TENANTS]


def pause(store: SpareValkey) -> None:
    store.pause()


def kill(store: SpareValkey) -> None:
    store.kill()


def forget_functions(store: SpareValkey) -> None:
    with store.client() as client:
        client.function_flush()


def forget_everything(store: SpareValkey) -> None:
    with store.client() as client:
        client.flushall()


@pytest.mark.parametrize("harm", [pause, kill, forget_functions, forget_everything])
def test_the_failure_mode_decides_while_the_store_is_away_and_no_longer(
    program: Program, store: SpareValkey, harm: Callable[[SpareValkey], None]
) -> None:
    with program.running(store.url, budget_ms=SHORT_MS, fail="closed") as asker:
        for tenant, endpoint in (("acme", "rides:list"), ("acme", "rides:create"), ("bankrupt", "rides:list")):
            assert wait_for_store(asker, tenant, endpoint).reason in ("ok", "suspended")
        harm(store)
        answers = [
            asker.check("acme", "rides:list"),
            asker.check("acme", "rides:create"),
            asker.check("bankrupt", "rides:list"),
            asker.check("zenith", "rides:list"),  # never asked before
        ]
        assert [told.reason for told in answers] == 4 * ["unavailable"]
        assert [told.allowed for told in answers] == [True, False, False, False]
        mend(store)
        assert wait_for_store(asker, "acme", "rides:create").allowed


def mend(store: SpareValkey) -> None:
    store.resume()
    with store.client() as client:
        try:
            client.ping()
        except redis.ConnectionError:
            store.start()
        publish(client)


def wait_for_store(asker: Asker, tenant: str, endpoint: str) -> Answer:
    """On a busy machine a reply may come after the budget, and a client may still be connecting."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (told := asker.check(tenant, endpoint)).reason == "unavailable":
        assert time.monotonic() < deadline, "the program no longer asks the store"
        time.sleep(0.01)
    return told
