"""Whether what a draft leads to can be enforced: the compiler is asked before the change is committed."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils import timezone

from quotas.policy.book import Touched
from quotas.policy.compiler import check_compiles
from quotas.policy.overrides import override_problem
from quotas.policy.problems import Problem
from quotas.policy.resolve import Index
from quotas.policy.spec import Configuration
from quotas.selectors.rows import to_us
from quotas.services.concerned import Concerned
from quotas.services.errors import Refused


def check_enforceable(concerned: Concerned) -> None:
    now_us = to_us(timezone.now())
    touched = Touched(concerned.tenants, concerned.tiers, concerned.targets.is_common)
    broken = check_compiles(concerned.configuration, touched, now_us, clustered=False)
    problems = [Problem(str(owner), "compile", message) for owner, message in broken.items()]
    problems += _override_problems(concerned.configuration, now_us)
    if problems:
        raise Refused(problems)


def _override_problems(configuration: Configuration, now_us: int) -> Iterator[Problem]:
    """Of those that are not over: an edit must not leave one that changes nothing."""
    index = Index.of_configuration(configuration)
    for override in configuration.overrides:
        if override.end_us is None or override.end_us > now_us:
            layers = index.of_tenant(configuration.tenants[override.tenant])
            problem = override_problem(layers, override, now_us)
            if problem:
                yield Problem(f"override {override.id} of tenant {override.tenant}", "override", problem)
