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


if __name__ == "__main__":
    main()
