"""Fills the home of a product before it starts: the demo, with hours of history instead of two weeks.

Run as a program, because a test process has a database of its own: `python -m tests.browser.world`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any, Final

import django
from django.core.management import call_command

from config.data_folders import places
from config.embedded import start_embedded_valkey, start_postgres

PASSWORD: Final = "known to the tests alone"
THROTTLED: Final = "delta-shuttle"
KEYED: Final = "world-of-wheels"
PER_KEY: Final = "per-key"
IN_SHADOW, SCHEDULED, IN_CANARY, PROMOTED = 1, 2, 3, 4  # the demo's changes, then those below
HOURS: Final = 6


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    home = places()
    os.environ["SECRET_KEY"] = home.secret()
    with ExitStack() as stack:
        for start in (start_postgres, start_embedded_valkey):
            stack.callback(start(home).stop)
        django.setup()
        call_command("migrate", verbosity=0, interactive=False)
        call_command("seed", hours=HOURS)
        _people()
        _recommendations()
        _limit_per_key()
        _changes()


def _people() -> None:
    from tests.access.people import person

    for name, role, tenant in (("ada", "owner", None), ("tess", "tenant", THROTTLED)):
        user = person(name, role, tenant)
        user.set_password(PASSWORD)
        user.save()


def _recommendations() -> None:
    """The demo's own take two weeks of history; measuring these hours instead would call them too few."""
    from quotas.models import Task
    from tests.dashboards.test_recommendations import EVIDENCE, FORECAST, bucket_of, recommended

    Task.objects.filter(kind=Task.Kind.CALIBRATE).delete()
    evidence = EVIDENCE | {
        "marker": "fleetly",
        "tenants": [{**EVIDENCE["tenants"][0], "tenant": "fleetly"}],
        "overrides": [{**EVIDENCE["overrides"][0], "tenant": "fleetly"}],
    }
    both: dict[str, Any] = {
        "policy": "pro-everywhere",
        "evidence": evidence,
        "forecast": FORECAST | {"freed": ["fleetly"]},
    }
    recommended(current=bucket_of(50, 150), proposed=bucket_of(75, 225), summary="Raise burst of pro.", **both)
    free: dict[str, Any] = {
        "policy": "free-everywhere",
        "tier": "free",
        "current": bucket_of(5, 20),
        "proposed": bucket_of(8, 30),
    }
    recommended(trust="medium", **both | free, summary="Raise burst of free.")


def _limit_per_key() -> None:
    """Wide, and hardly refilled: what is left of it tells whether two keys are one caller."""
    from quotas.policies.edit import policy_create

    limit = {"name": PER_KEY, "algorithm": "token_bucket", "rate": 1, "per": "1h", "burst": 100_000, "subject": "key"}
    policy_create(
        name=f"{KEYED}-track",
        tenant=KEYED,
        endpoint="rider:track",
        limits=[limit],
        author="ada",
        reason="no client may take it all",
        force=True,
    )


def _changes() -> None:
    """Of policies that no test edits: what is on trial cannot be edited."""
    from quotas.changes.promotion import change_promote
    from quotas.changes.rollout import change_propose, change_start
    from quotas.policies.edit import limit_set
    from tests.quotas.world import SAID

    jobs = {"name": "jobs", "algorithm": "concurrency", "limit": 12, "hold": "10m"}
    canary = change_propose(limit_set, policy="enterprise-exports", limit=jobs, **SAID)
    change_start(change=canary.pk, mode="canary", share_percent=20, **SAID)
    ratings = {"name": "ratings", "algorithm": "token_bucket", "rate": 2, "per": "1s", "burst": 40}
    promoted = change_propose(limit_set, policy="pro-ratings", limit=ratings, **SAID)
    change_promote(change=promoted.pk, **SAID)
    if (canary.pk, promoted.pk) != (IN_CANARY, PROMOTED):
        raise AssertionError(f"the changes are {canary.pk} and {promoted.pk}")


if __name__ == "__main__":
    main()
