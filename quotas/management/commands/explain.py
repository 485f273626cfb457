from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headroom_edge.algorithms.base import SECOND_US
from quotas.policies.explain import ExplainedLimit, Explanation, UnknownTenantError, explain
from quotas.policies.limit_words import limit_words
from quotas.policies.spec import EVERYWHERE, Limit, Override


class Command(BaseCommand):
    help = "Show every limit of a tenant on an endpoint, where it comes from and what it replaces."
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tenant")
        parser.add_argument("endpoint", nargs="?", default=EVERYWHERE)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            explanation = explain(tenant=options["tenant"], endpoint=options["endpoint"])
        except UnknownTenantError as error:
            raise CommandError(str(error), returncode=2) from None
        for line in _lines(explanation):
            self.stdout.write(line)


def _lines(explanation: Explanation) -> Iterator[str]:
    yield (
        f"tenant {explanation.tenant} (tier {explanation.tier}) on {explanation.endpoint}, "
        f"revision {explanation.revision}"
    )
    if explanation.is_suspended:
        yield "suspended: every request is denied"
    if not explanation.is_registered:
        yield f"{explanation.endpoint} is not registered: the limits on * apply"
    if not explanation.limits:
        yield "no limits: every request is allowed"
    for explained in explanation.limits:
        yield from _limit_lines(explained)
    for override in explanation.upcoming:
        yield f"  from {_time(override.start_us)}: {_override(override)}"


def _limit_lines(explained: ExplainedLimit) -> Iterator[str]:
    effective = explained.effective
    yield f"  {effective.limit.name}: {_words(effective.limit, is_global=effective.is_global)}"
    yield f"      from {effective.source}, counted on {_counted(effective.scope)}"
    for override in explained.overrides:
        yield f"      changed by {_override(override)}"
    for lost in explained.lost:
        yield f"      instead of {lost.source}: {_words(lost.limit)}"


def _words(limit: Limit, *, is_global: bool = False) -> str:
    return f"{limit.algorithm.name}, {limit_words(limit, is_global=is_global)}"


def _counted(scope: str) -> str:
    return "all endpoints together" if scope == EVERYWHERE else scope


def _override(override: Override) -> str:
    until = f"until {_time(override.end_us)}" if override.end_us else "until cancelled"
    return f"override {override.id} ({until})"


def _time(us: int) -> str:
    return datetime.fromtimestamp(us // SECOND_US, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
