"""The demo's past changes: who changed which limit, when and why.

Every step calls the same functions as the API and the pages do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypedDict

from django.conf import settings

from quotas.api_keys import api_key_issue
from quotas.changes.rollout import change_propose, change_start
from quotas.changes.snapshot import POLICY, key_of
from quotas.changes.trial_rule import TrialRule
from quotas.changes.undo import revision_revert
from quotas.demo import tenants
from quotas.demo.client_keys import keep_keys
from quotas.demo.partners import share_dispatch
from quotas.endpoints import endpoint_create
from quotas.errors import accepted
from quotas.models import Revision
from quotas.overrides import override_create
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.policies.edit import Fields, limit_set, policy_create
from quotas.recommendations.settings import calibration_settings_set
from quotas.tenants import NewTenant, tenant_archive, tenant_move, tenant_suspend, tenants_create
from tenants.models import ApiKey, Tenant

WORLD: Final = Path(__file__).with_name("world.yaml")
FIRST_KEY: Final = "first key"  # of each tenant
SPAN: Final = timedelta(days=14)
HOUR: Final = timedelta(hours=1)
# Times since the beginning that the recorded traffic depends on too.
QUOTES_RAISED: Final = timedelta(days=8, hours=14, minutes=10)
BURST_CUT: Final = timedelta(days=9, hours=10)
BURST_BACK: Final = timedelta(days=9, hours=12, minutes=10)
SUSPENDED: Final = timedelta(days=10, hours=16)
MOVED_TO_PRO: Final = timedelta(days=11, hours=11, minutes=30)
IN_SHADOW: Final = timedelta(days=13, hours=12)
RATINGS: Final = timedelta(days=9, hours=7)
LEFT: Final = timedelta(days=12, hours=15)


class GuardFlags(TypedDict):
    by_design: bool
    force: bool


# The demo has no second person who could approve a change.
PERMITTED: Final[GuardFlags] = {"by_design": True, "force": True}


@dataclass(frozen=True, slots=True)
class StoryStep:
    at: datetime
    author: str
    reason: str
    function: Callable[..., object]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def act(self) -> None:
        self.function(author=self.author, reason=self.reason, **self.arguments)


def story(began: datetime, now: datetime) -> Iterator[StoryStep]:
    """The steps in order of time; `began` is the start of the recorded traffic."""
    steps = (*_beginning(began), *_limits(began), *_accident(began), *_tenants(began))
    yield from sorted((*steps, *_overrides(now), *_staged(began, now)), key=lambda step: step.at)


def _beginning(began: datetime) -> Iterator[StoryStep]:
    document = accepted(read_document(WORLD.read_text(encoding="utf-8")))
    yield _permitted(
        began - 2 * HOUR, "pipeline", "the first policies, from the repository", document_apply, document=document
    )
    yield StoryStep(began - HOUR, "pipeline", "the customers of the platform", _sign_up, {"new": tenants.FIRST})
    reason = "their contract has a rate of its own for tracking"
    own = {"name": "burst", "algorithm": "token_bucket", "rate": 6, "per": "10s", "burst": 30}
    named = {"name": "harbor-taxi-track", "tenant": "harbor-taxi", "endpoint": "rider:track"}
    yield _permitted(began - HOUR / 2, "operator", reason, policy_create, limits=[own], **named)
    reason = "partners sleep at different hours: let them lend each other what they do not use"
    yield _permitted(began - HOUR / 3, "operator", reason, share_dispatch)
    quiet = {"values": {"down_days": 14}}
    reason = "propose to lower a limit after two quiet weeks, not four"
    yield StoryStep(began - HOUR / 4, "operator", reason, calibration_settings_set, quiet)


def _limits(began: datetime) -> Iterator[StoryStep]:
    fixed = {"algorithm": "fixed_window"}
    per_client = {"name": "quotes-per-client", "limit": 60, "window": "1m", "subject": "key|ip"} | fixed
    reason = "support ticket: quotes failed"
    yield _set(began + timedelta(days=2, hours=9, minutes=20), "operator", reason, "free-quotes", per_client)
    quotes = {"name": "quotes", "algorithm": "token_bucket", "rate": 6, "per": "10s", "burst": 10}
    yield _set(began + QUOTES_RAISED, "operator", "delta-shuttle was throttled half of the day", "pro-quotes", quotes)
    yield StoryStep(began + RATINGS, "pipeline", "riders can rate a ride", _add_ratings)
    hourly = {"name": "hourly", "limit": 120, "window": "1h"} | fixed
    reason = "reports by region: twice as many calls"
    yield _set(began + timedelta(days=13, hours=8), "pipeline", reason, "pro-reports", hourly)


def _accident(began: datetime) -> Iterator[StoryStep]:
    burst = {"name": "burst", "algorithm": "token_bucket", "rate": 5, "per": "1s", "burst": 10}
    yield _set(began + BURST_CUT, "pipeline", "smaller bursts for the free tier", "free-everywhere", burst)
    yield StoryStep(
        began + BURST_BACK,
        "on-call",
        "free tenants get 429s for the first time",
        _revert,
        {"policy": "free-everywhere"},
    )


def _tenants(began: datetime) -> Iterator[StoryStep]:
    for days, newcomer in zip((5, 11, 9), tenants.LATER, strict=True):
        yield StoryStep(began + timedelta(days=days), "pipeline", "signed up", _sign_up, {"new": [newcomer]})
    yield StoryStep(began + SUSPENDED, "operator", "invoice overdue", tenant_suspend, {"name": "early-bird"})
    left = {"name": "old-town-taxi", "at": began + LEFT}
    yield StoryStep(began + LEFT, "operator", "they closed their business", _archive, left)
    move = {"name": "metro-hop", "tier": "pro"}
    yield _permitted(began + MOVED_TO_PRO, "operator", "they bought the pro plan", tenant_move, **move)


def _overrides(now: datetime) -> Iterator[StoryStep]:
    """Overrides started in the last day, because an override may not start earlier."""
    start = now - 20 * HOUR
    more = {"tenant": "fleetly", "multiplier": (3, 2), "start": start, "end": now + 3 * HOUR}
    yield _permitted(start, "operator", "a festival in town", override_create, **more)
    start = now - 16 * HOUR
    longer = {"tenant": "green-go", "endpoint": "driver:location", "limits": {"smooth": {"queue": 60}}}
    when = {"start": start, "end": now + timedelta(days=7)}
    reason = "their app polls in lockstep until its next release"
    yield _permitted(start, "on-call", reason, override_create, **longer, **when)


def _staged(began: datetime, now: datetime) -> Iterator[StoryStep]:
    smooth = {"name": "smooth", "algorithm": "leaky_bucket", "rate": 6, "per": "1s", "queue": 20, "on_failure": "local"}
    tried = {"policy": "pro-location", "limit": smooth, "how": {"mode": "shadow"}}
    reason = "less load on the location store; first check whom it would affect"
    yield StoryStep(began + IN_SHADOW, "operator", reason, _stage, tried)
    charges = {"name": "charges", "algorithm": "gcra", "rate": 30, "per": "1s", "burst": 15, "on_failure": "closed"}
    later = {"mode": "scheduled", "at": now + timedelta(days=1)}
    planned = {"policy": "enterprise-charges", "limit": charges, "how": later}
    yield StoryStep(
        began + IN_SHADOW + HOUR, "operator", "the new payment provider takes a higher rate", _stage, planned
    )


def _permitted(at: datetime, author: str, reason: str, function: Callable[..., object], **arguments: Any) -> StoryStep:
    return StoryStep(at, author, reason, function, arguments | PERMITTED)


def _set(at: datetime, author: str, reason: str, policy: str, limit: Fields) -> StoryStep:
    return _permitted(at, author, reason, limit_set, policy=policy, limit=limit)


def _revert(*, policy: str, author: str, reason: str) -> None:
    newest = Revision.objects.filter(touched__contains=[key_of(POLICY, policy)]).order_by("-number")[0]
    revision_revert(number=newest.number, author=author, reason=reason, **PERMITTED)


def _sign_up(*, new: Sequence[NewTenant], author: str, reason: str) -> None:
    tenants_create(tenants=new, author=author, reason=reason)
    issued = {one.name: api_key_issue(tenant=one.name, label=FIRST_KEY, author=author, reason=reason) for one in new}
    keep_keys(settings.HEADROOM_DEMO_KEYS, {tenant: str(key.text) for tenant, key in issued.items()})


def _add_ratings(*, author: str, reason: str) -> None:
    """An endpoint with too little history to size its limit yet."""
    said: dict[str, Any] = {"author": author, "reason": reason, **PERMITTED}
    endpoint_create(name="rider:rate", method="POST", path="/rider/v1/rides/{id}/rating", **said)
    ratings = {"name": "ratings", "algorithm": "token_bucket", "rate": 1, "per": "1s", "burst": 20}
    policy_create(name="pro-ratings", tier="pro", endpoint="rider:rate", limits=[ratings], **said)


def _archive(*, name: str, at: datetime, author: str, reason: str) -> None:
    """The services write the time of today into these two; the columns that Postgres stamps are dated back with it."""
    tenant_archive(name=name, author=author, reason=reason)
    Tenant.objects.filter(name=name).update(archived_at=at)
    ApiKey.objects.filter(tenant__name=name).update(revoked_at=at)


def _stage(*, policy: str, limit: Fields, how: Mapping[str, Any], author: str, reason: str) -> None:
    change = change_propose(limit_set, author=author, reason=reason, policy=policy, limit=limit)
    # It stays for visitors to look at, whatever it would deny.
    rule = TrialRule(auto_stop=False)
    change_start(change=change.pk, author=author, reason=reason, rule=rule, **how, **PERMITTED)
