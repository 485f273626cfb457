"""A key is rotated while its clients work: nobody is turned away, and limits per key have one budget for the line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count, product

import pytest
import redis
from django.utils import timezone

from headroom_edge import Limiter
from headroom_edge.request_guard import Guard, GuardRules, Request
from quotas.api_keys import IssuedKey, api_key_issue, api_key_rotate
from quotas.models import KeyUse
from quotas.policies.edit import policy_create
from quotas.publishing.publisher import Publisher
from quotas.usage.key_uses import drain_key_uses
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.gateway.test_serving import alone
from tests.headroom_edge.world import PATIENCE_SECONDS, Client
from tests.quotas.publishing.worlds import publisher_for
from tests.quotas.world import FORCED, GET, SAID, make_world

BUDGET = 60
REQUESTS = 160
PER_KEY = {"name": "per-key", "algorithm": "fixed_window", "limit": BUDGET, "window": "1d", "subject": "key"}

Ask = Callable[[str], int]  # a key's text → the status


@pytest.fixture
def publisher(valkey: redis.Redis, valkey_url: str, db: None) -> Publisher:
    make_world()
    policy_create(name="own", tenant="acme", endpoint=GET, limits=[PER_KEY], **FORCED)
    return publisher_for(redis.Redis.from_url(valkey_url, decode_responses=True))


@pytest.fixture
def gateway(valkey_url: str) -> Iterator[Ask]:
    with alone(REDIS_URL=valkey_url) as client:
        yield lambda text: _status(client, text)


def _status(client: Client, text: str) -> int:
    answer = client.post("/v1/check", {"api_key": text, "endpoint": GET}, authorization=f"Bearer {text}")
    return int(answer.json()["status"]) if answer.status == 200 else answer.status


@pytest.fixture
def sdk(valkey_url: str) -> Iterator[Ask]:
    guard = Guard(GuardRules(endpoint=lambda _: GET))
    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS, heartbeat_s=0.01) as limiter:

        def ask(text: str) -> int:
            fields = {"x-api-key": text}
            request = Request("GET", "/v1/rides/7", "127.0.0.1", lambda name: fields.get(name, ""))
            return limiter.converse(lambda core: guard.judge(core, request)).status

        yield ask


def test_under_load_both_keys_share_one_budget_and_nobody_is_turned_away(
    publisher: Publisher, gateway: Ask, sdk: Ask
) -> None:
    keys = [api_key_issue(tenant="acme", **SAID)]
    publisher.publish()
    numbers = count()

    def request(_: int) -> int:
        number = next(numbers)
        return (gateway, sdk)[number % 2](str(keys[number // 2 % len(keys)].text))

    with ThreadPoolExecutor(4) as pool:
        early = list(pool.map(request, range(BUDGET // 3)))
        asked = [pool.submit(request, n) for n in range(REQUESTS)]
        # Meanwhile the clients go on with the old key; they learn the new one once it works.
        new = api_key_rotate(key_id=keys[0].row.key_id, until=timezone.now() + timedelta(days=1), **SAID)
        publisher.publish()
        keys.append(new)
        late = [pool.submit(request, n) for n in range(REQUESTS)]
        statuses = Counter(early + [one.result() for one in (*asked, *late)])
    assert set(statuses) == {200, 429}
    assert statuses[200] == BUDGET


def test_the_old_key_ends_by_itself_while_no_publisher_runs(publisher: Publisher, gateway: Ask, sdk: Ask) -> None:
    old = api_key_issue(tenant="acme", **SAID)
    until = timezone.now().replace(microsecond=0) + timedelta(seconds=4)
    new = api_key_rotate(key_id=old.row.key_id, until=until, **SAID)
    publisher.publish()
    for ask, key in product((gateway, sdk), (old, new)):
        status = ask(str(key.text))
        assert status == 200 or (key is old and timezone.now() >= until)
    for ask in (gateway, sdk):
        _wait_for_end(ask, old)
        assert timezone.now() >= until
    assert {gateway(str(new.text)), sdk(str(new.text))} <= {200, 429}


def _wait_for_end(ask: Ask, key: IssuedKey) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (status := ask(str(key.text))) != 401:
        assert status in (200, 429)
        assert time.monotonic() < deadline


def test_what_gateways_and_sdks_report_tells_the_last_use(
    publisher: Publisher, gateway: Ask, sdk: Ask, valkey: redis.Redis
) -> None:
    key = api_key_issue(tenant="acme", **SAID)
    publisher.publish()
    for ask in (gateway, sdk):
        ask(str(key.text))
    now, deadline = timezone.now(), time.monotonic() + PATIENCE_SECONDS
    # The gateway counts the caller and the key that it asks about; here they are one.
    while sum(KeyUse.objects.values_list("requests", flat=True)) < 3:
        drain_key_uses(valkey, now, "run")
        assert time.monotonic() < deadline
    use = KeyUse.objects.get()
    assert (use.key_id, use.requests, use.last_used) == (key.row.key_id, 3, now)
