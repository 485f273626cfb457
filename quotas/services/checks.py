"""Whether what a draft leads to can be enforced: the compiler is asked before the change is committed."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils import timezone

from quotas.errors import Refused
from quotas.policies.book import Touched
from quotas.policies.compile import check_compiles
from quotas.policies.configuration_rows import to_us
from quotas.policies.enforceable import override_problem
from quotas.policies.problems import Problem
from quotas.policies.resolve import Index
from quotas.policies.spec import Configuration
from quotas.services.concerned import Concerned


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
