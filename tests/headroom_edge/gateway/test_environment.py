from __future__ import annotations

import pytest

from headroom_edge import Profile
from headroom_edge.gateway.environment import GatewaySettings
from headroom_edge.plan.paths import PathReading
from headroom_edge.request_guard import GuardRules


def test_nothing_set_trusts_nobody_and_refuses_who_has_no_key() -> None:
    settings = GatewaySettings.read({})
    assert (settings.store, settings.shards, settings.budget_ms, settings.fail) == (
        "redis://localhost:6379/0",
        64,
        20,
        "open",
    )
    assert settings.rules == GuardRules()


def test_every_variable_counts() -> None:
    rules = GatewaySettings.read(
        {
            "HEADROOM_TRUSTED_PROXIES": "10.0.0.0/8, unix",
            "HEADROOM_FORWARDED_HEADER": "X-Real-IP",
            "HEADROOM_TENANT_HEADER": "X-Tenant",
            "HEADROOM_SUBJECT_HEADERS": "user=X-User-Id,org=X-Org",
            "HEADROOM_PRIORITY_HEADER": "X-Priority",
            "HEADROOM_ANONYMOUS_TENANT": "visitors",
            "HEADROOM_LIMITS_URL": "https://example.com/limits/{tenant}",
            "HEADROOM_HEADERS": "draft+x-ratelimit",
            "HEADROOM_MAX_WAIT_MS": "250",
            "HEADROOM_DEADLINE_HEADER": "X-Timeout-Ms",
            "HEADROOM_PATHS": "ignore-case,parameters,dots-inside,hash-inside,newline-inside",
        }
    ).rules
    assert rules.trusted_proxies.unix
    assert rules.trusted_proxies.trusts("10.1.2.3")
    assert (rules.forwarded_header, rules.tenant_header, rules.deadline_header) == (
        "x-real-ip",
        "x-tenant",
        "x-timeout-ms",
    )
    assert rules.subject_headers == {"user": "x-user-id", "org": "x-org"}
    assert rules.priority_header == "x-priority"
    assert (rules.anonymous, rules.max_wait_ms) == ("visitors", 250)
    assert rules.limits_url == "https://example.com/limits/{tenant}"
    assert rules.profile == Profile(triple="X-RateLimit")
    assert rules.reading == PathReading(
        ignores_case=True, drops_parameters=True, resolves_dots=False, keeps_hash=True, drops_newline=False
    )


def test_leases_are_off_unless_asked_for() -> None:
    assert not GatewaySettings.read({}).leases
    assert GatewaySettings.read({"HEADROOM_LEASES": "1"}).leases


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADROOM_TRUSTED_PROXIES", "everybody"),
        ("HEADROOM_SUBJECT_HEADERS", "user"),
        ("HEADROOM_SUBJECT_HEADERS", "all=x-user"),
        ("HEADROOM_ANONYMOUS_TENANT", "No Tenant"),
        ("HEADROOM_HEADERS", "all"),
        ("HEADROOM_MAX_WAIT_MS", "1s"),
        ("HEADROOM_PATHS", "lenient"),
        ("HEADROOM_SHARDS", "0"),
        ("HEADROOM_FAIL", "ajar"),
        ("HEADROOM_LEASES", "yes"),
    ],
)
def test_a_wrong_value_is_named_with_its_variable(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        GatewaySettings.read({name: value})
