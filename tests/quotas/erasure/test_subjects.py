"""A subject is erased from Redis and PostgreSQL; everybody else's counters stay."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import cast

import pytest
import redis
from django.core.management import CommandError, call_command

from headroom_edge import Limiter, keys
from headroom_edge.keys import subject_spellings
from quotas.models import AuditEvent, CalendarCounter
from quotas.models.usage import Arrival, Denial
from quotas.policies.edit import policy_create
from quotas.usage.drain import drain
from quotas.usage.drain_batches import take_batches
from quotas.usage.fold import fold_all
from tests.quotas.publishing.worlds import publisher_for
from tests.quotas.world import FORCED, GET, make_world

ANN, BOB = "ann@example.com", "bob@example.com"
STRANGE = "Ann Østergaard, with a long name and spaces"
HOME, MAPPED = "2001:db8:1:2:3::9", "::ffff:203.0.113.9"
MONTHLY = {"name": "monthly", "algorithm": "calendar_quota", "limit": 3, "period": "month", "subject": "user"}
PAIRS = {"name": "pairs", "algorithm": "sliding_log", "limit": 50, "window": "1h", "subject": "user+ip|ip"}


def erase(*words: str) -> str:
    out = io.StringIO()
    call_command("erase", *words, stdout=out)
    return out.getvalue()


def everything(valkey: redis.Redis) -> str:
    found = []
    for key in valkey.scan_iter():
        kind = valkey.type(key)
        value: object = valkey.hgetall(key) if kind == b"hash" else ""
        found.append(repr((key, valkey.lrange(key, 0, -1) if kind == b"list" else value)))
    return "\n".join(found)


@pytest.fixture
def used(db: None, valkey: redis.Redis, valkey_url: str) -> str:
    make_world()
    policy_create(name="own", tenant="acme", endpoint=GET, limits=[MONTHLY, PAIRS], **FORCED)
    publisher_for(redis.Redis.from_url(valkey_url, decode_responses=True)).publish()
    spend(valkey_url)
    drain(valkey)
    fold_all()
    spend(valkey_url)
    return valkey_url


def spend(url: str) -> None:
    with Limiter.from_url(url, budget_ms=60_000) as limiter:
        for user in (ANN, BOB, STRANGE):
            for ip in ("203.0.113.7", HOME, MAPPED, "203.0.113.8"):
                limiter.check(tenant="acme", endpoint=GET, subject={"user": user, "ip": ip})


@pytest.mark.parametrize("value", [ANN, STRANGE])
def test_nothing_of_the_subject_is_left_and_the_others_stay(used: str, valkey: redis.Redis, value: str) -> None:
    (spelt,) = subject_spellings(value)
    assert spelt in everything(valkey)
    counters, denials, arrivals = CalendarCounter.objects.count(), Denial.objects.count(), Arrival.objects.count()
    assert denials > 0
    assert "2  calendar counters" not in erase("--subject", value, "--dry-run")
    assert (CalendarCounter.objects.count(), spelt in everything(valkey)) == (counters, True)
    assert "1  calendar counters in PostgreSQL" in erase("--subject", value, "--tenant", "acme")
    assert spelt not in everything(valkey)
    assert BOB in everything(valkey)
    assert CalendarCounter.objects.count() == counters - 1
    assert Denial.objects.count() < denials
    assert Arrival.objects.count() <= arrivals
    assert value not in str(AuditEvent.objects.get(kind="subject_erased").detail)
    # A later drain does not bring it back.
    drain(valkey)
    assert CalendarCounter.objects.count() == counters - 1
    assert "1  calendar" not in erase("--subject", value, "--dry-run")


def sampled_subject(url: str, valkey: redis.Redis) -> tuple[str, int]:
    """Somebody who was denied and whose arrivals are sampled, with the hash that stands for them there."""
    known = waiting(valkey)
    with Limiter.from_url(url, budget_ms=60_000) as limiter:
        for number in range(1_000):
            user = f"user-{number}"
            limiter.check(tenant="acme", endpoint=GET, subject={"user": user, "ip": "203.0.113.7"})
            if found := waiting(valkey) - known:
                break
        for _ in range(4):
            limiter.check(tenant="acme", endpoint=GET, subject={"user": user, "ip": "203.0.113.7"})
    (hashed,) = found
    return user, hashed


def waiting(valkey: redis.Redis) -> set[int]:
    """The subjects of arrivals that wait for the drain in Redis."""
    prefix = keys.tenant_prefix("acme")
    lists = (cast("list[bytes]", valkey.lrange(f"{prefix}:{name}", 0, -1)) for name in ("a", "ab"))
    return {int.from_bytes(bytes.fromhex(item.split()[1].decode()), signed=True) for items in lists for item in items}


@pytest.mark.parametrize("set_aside", [lambda valkey: None, lambda valkey: take_batches(valkey, keys.SHARDS)])
def test_samples_that_wait_for_the_drain_are_erased_too(
    used: str, valkey: redis.Redis, set_aside: Callable[[redis.Redis], object]
) -> None:
    user, hashed = sampled_subject(used, valkey)
    others = waiting(valkey) - {hashed}
    set_aside(valkey)
    assert "5  sampled arrivals in Redis" in erase("--subject", user, "--dry-run")
    erase("--subject", user)
    assert waiting(valkey) == others
    drain(valkey)
    assert not Arrival.objects.filter(subject=hashed).exists()


def test_a_drain_that_has_read_before_does_not_bring_it_back(used: str, valkey: redis.Redis) -> None:
    user, hashed = sampled_subject(used, valkey)

    def erase_when_it_has_read(step: str) -> None:
        if step == "read":
            erase("--subject", user)

    drain(valkey, on_step=erase_when_it_has_read)
    assert not Arrival.objects.filter(subject=hashed).exists()
    assert "0  denials in PostgreSQL" in erase("--subject", user, "--dry-run")
    assert "0  calendar counters in PostgreSQL" in erase("--subject", user, "--dry-run")


@pytest.mark.parametrize(("value", "spelt"), [(HOME, "~20010db800010002"), (MAPPED, "203.0.113.9")])
def test_an_address_is_found_as_the_network_it_is_counted_on(
    used: str, valkey: redis.Redis, value: str, spelt: str
) -> None:
    assert spelt in everything(valkey)
    erase("--subject", value)
    assert spelt not in everything(valkey)
    assert "203.0.113.7" in everything(valkey)


def test_a_value_that_is_not_text_is_refused(valkey: redis.Redis) -> None:
    with pytest.raises(CommandError, match="not text in UTF-8"):
        erase("--subject", os.fsdecode(b"\xff"), "--dry-run")
