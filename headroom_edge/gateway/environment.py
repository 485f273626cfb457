"""The gateway's settings, from environment variables. An invalid value raises ValueError with one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from headroom_edge import AsyncLimiter, Profile
from headroom_edge.check import TENANT, is_dimension
from headroom_edge.decision import FAILURES, Failure
from headroom_edge.keys import SHARDS
from headroom_edge.plan.paths import PathReading
from headroom_edge.proxies import TrustedProxies
from headroom_edge.request_guard import GuardRules

Environment = Mapping[str, str]

READINGS: Final = {
    "encoded-slash-inside": ("joins_encoded_slash", True),
    "parameters": ("drops_parameters", True),
    "ignore-case": ("ignores_case", True),
    "hash-inside": ("keeps_hash", True),
    "dots-inside": ("resolves_dots", False),
    "newline-inside": ("drops_newline", False),
}
PROFILES: Final = {
    "draft": Profile(),
    "draft+x-ratelimit": Profile(triple="X-RateLimit"),
    "draft+ratelimit": Profile(triple="RateLimit"),
    "x-ratelimit": Profile(draft=None, triple="X-RateLimit"),
}


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    store: str
    shards: int
    budget_ms: int
    fail: Failure
    leases: bool
    rules: GuardRules

    @classmethod
    def read(cls, environment: Environment) -> GatewaySettings:
        return cls(
            store=_text(environment, "REDIS_URL", "redis://localhost:6379/0"),
            shards=_number(environment, "HEADROOM_SHARDS", SHARDS, 16_384),
            budget_ms=_number(environment, "HEADROOM_BUDGET_MS", 20, 60_000),
            fail=cast("Failure", _choice(environment, "HEADROOM_FAIL", "open", FAILURES)),
            leases=_choice(environment, "HEADROOM_LEASES", "0", ("0", "1")) == "1",
            rules=_rules(environment),
        )

    def limiter(self) -> AsyncLimiter:
        return AsyncLimiter.from_url(
            self.store, shards=self.shards, budget_ms=self.budget_ms, fail=self.fail, leases=self.leases
        )


def _rules(environment: Environment) -> GuardRules:
    return GuardRules(
        trusted_proxies=_proxies(environment),
        forwarded_header=_text(environment, "HEADROOM_FORWARDED_HEADER", "x-forwarded-for").lower(),
        tenant_header=_text(environment, "HEADROOM_TENANT_HEADER", "").lower(),
        subject_headers=_subject_headers(environment),
        priority_header=_text(environment, "HEADROOM_PRIORITY_HEADER", "").lower(),
        anonymous=_tenant(environment, "HEADROOM_ANONYMOUS_TENANT"),
        limits_url=_text(environment, "HEADROOM_LIMITS_URL", ""),
        profile=PROFILES[_choice(environment, "HEADROOM_HEADERS", "draft", tuple(PROFILES))],
        max_wait_ms=_number(environment, "HEADROOM_MAX_WAIT_MS", 1_000, 600_000),
        deadline_header=_text(environment, "HEADROOM_DEADLINE_HEADER", "").lower(),
        reading=_reading(environment),
    )


def _text(environment: Environment, name: str, default: str) -> str:
    return environment.get(name, "").strip() or default


def _words(environment: Environment, name: str) -> list[str]:
    return [word.strip() for word in environment.get(name, "").split(",") if word.strip()]


def _number(environment: Environment, name: str, default: int, most: int) -> int:
    text = _text(environment, name, str(default))
    if text.isascii() and text.isdigit() and 1 <= int(text[:20]) <= most:
        return int(text)
    raise ValueError(f"{name} is {text!r}; set it to a whole number from 1 to {most}.")


def _choice(environment: Environment, name: str, default: str, allowed: tuple[str, ...]) -> str:
    text = _text(environment, name, default)
    if text in allowed:
        return text
    raise ValueError(f"{name} is {text!r}; set it to one of {', '.join(allowed)}.")


def _tenant(environment: Environment, name: str) -> str:
    text = _text(environment, name, "")
    if not text or TENANT.fullmatch(text):
        return text
    raise ValueError(f"{name} is {text!r}; set it to the name of a tenant.")


def _proxies(environment: Environment) -> TrustedProxies:
    try:
        return TrustedProxies.parse(_words(environment, "HEADROOM_TRUSTED_PROXIES"))
    except ValueError as error:
        raise ValueError(f"HEADROOM_TRUSTED_PROXIES: {error}") from None


def _subject_headers(environment: Environment) -> dict[str, str]:
    name = "HEADROOM_SUBJECT_HEADERS"
    pairs = dict((*word.partition("=")[::2],) for word in _words(environment, name))
    for dimension, header in pairs.items():
        if not is_dimension(dimension) or not header:
            raise ValueError(f"{name} has {dimension!r}; use dimension=header, such as user=x-user-id.")
    return {dimension: header.lower() for dimension, header in pairs.items()}


def _reading(environment: Environment) -> PathReading:
    name = "HEADROOM_PATHS"
    words = _words(environment, name)
    for word in words:
        if word not in READINGS:
            raise ValueError(f"{name} has {word!r}; use any of {', '.join(READINGS)}, separated by commas.")
    return PathReading(**dict(READINGS[word] for word in words))
