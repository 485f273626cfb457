"""The programs of docs/fcall.md in Go, Node and Java, on one table of cases, against a real Valkey and a real cluster.

They are sweeps, because compilers and package managers take longer than the cases.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import redis

from headroom_edge import Limiter, keys
from headroom_edge.store.slots import slot_of
from quotas.policies.spec import Limit
from tests.clusters import SpareCluster
from tests.headroom_edge.cluster_world import AMPLE as OWN
from tests.headroom_edge.cluster_world import TENANTS as CLUSTER_TENANTS
from tests.headroom_edge.cluster_world import publish_cluster, tenants_by_primary, used_of_all
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
PLENTY = limit("plenty", "fixed_window", limit=1_000_000, window="1h")
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
    decide_all(program, store.url)


@pytest.mark.parametrize("over_all", [(), (PLENTY,)], ids=["own", "global"])
def test_every_case_is_decided_so_in_a_cluster(
    program: Program, cluster: SpareCluster, over_all: tuple[Limit, ...]
) -> None:
    """With a global limit, every request pays at its home first."""
    with cluster.client() as client:
        publish_cluster(client, FIVE, over_all=over_all)
        decide_all(program, cluster.url)


def decide_all(program: Program, url: str) -> None:
    with (
        Limiter.from_url(url, budget_ms=AMPLE_MS) as sdk,
        program.running(url, budget_ms=AMPLE_MS, fail="closed") as asker,
    ):
        for case in CASES:
            for _ in range(case.used):
                assert sdk.check(tenant=case.tenant, endpoint=case.endpoint, subject=case.subject).allowed
            told = asker.check(case.tenant, case.endpoint, case.cost, case.subject)
            assert (told.error or told.reason).startswith(case.expected), case.name
            assert told.allowed == (case.expected == "ok"), case.name
            assert retry_fits(told), case.name


def test_all_tenants_of_a_cluster_together_get_what_a_global_limit_says(
    program: Program, cluster: SpareCluster
) -> None:
    assert len(tenants_by_primary(cluster)) == 3
    with cluster.client() as client:
        publish_cluster(client, OWN, over_all=(limit("total", "fixed_window", limit=40, window="1h"),))
        with program.running(cluster.url, budget_ms=AMPLE_MS, fail="closed") as asker:
            told = [asker.check(tenant, "rides:list") for tenant in CLUSTER_TENANTS * 2]
        assert sum(each.allowed for each in told) == 40
        assert {each.reason for each in told if not each.allowed} == {"limit"}
        # Each of the 20 denials was reported to its tenant's shard, as one of the second limit's.
        denied = 0
        for tenant in {keys.tenant_prefix(name) for name in CLUSTER_TENANTS}:
            cells = client.hgetall(f"{tenant}:u").items()
            denied += sum(int(packed) % 2**24 for cell, packed in cells if cell.endswith(b"d2"))
        assert denied == 20


def test_a_denial_of_the_shard_gives_back_what_the_home_charged(program: Program, cluster: SpareCluster) -> None:
    with cluster.client() as client:
        publish_cluster(client, limit("two", "fixed_window", limit=2, window="1h"), over_all=(PLENTY,))
        with program.running(cluster.url, budget_ms=AMPLE_MS, fail="closed") as asker:
            told = [asker.check("t0", "rides:list", "1", {"ip": "203.0.113.9"}).allowed for _ in range(5)]
        assert told == [True, True, False, False, False]
        assert used_of_all(client) == 2


def test_a_slot_that_has_moved_is_followed(program: Program, spare_cluster: SpareCluster) -> None:
    prefix = keys.tenant_prefix("t0")
    with spare_cluster.client() as client:
        publish_cluster(client, limit("two", "fixed_window", limit=2, window="1h"))
    source = spare_cluster.owner_of(prefix)
    target = next(node for node in spare_cluster.primaries() if node is not source)
    with program.running(spare_cluster.url, budget_ms=AMPLE_MS, fail="closed") as asker:
        told = [asker.check("t0", "rides:list").allowed]
        spare_cluster.move_slot(slot_of(prefix), source, target)
        told += [asker.check("t0", "rides:list").allowed for _ in range(2)]
    assert told == [True, True, False]


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
