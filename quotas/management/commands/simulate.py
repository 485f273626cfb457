"""Replays arrivals through a limit or a policy, or runs the scenarios, without touching a live Redis."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headroom_edge.algorithms.base import ParameterError
from quotas.backtest.file_problem import file_problem
from quotas.policies.document import Document, read_document
from quotas.policies.limit_codec import limit_parse
from quotas.policies.spec import Limit, Policy
from quotas.simulation import replay
from quotas.simulation.arrivals_csv import Arrival, ArrivalsError, read_arrivals
from quotas.simulation.reference_plan import on_calendar
from quotas.simulation.report import (
    ACCURACY,
    accuracy_table,
    decisions_json,
    policy_table,
    scenario_list,
    scenario_table,
)
from quotas.simulation.sandbox import Sandbox, SandboxError, replay_on_store
from quotas.simulation.scenarios import SCENARIOS

ENGINES = ("reference", "lua")
ACCURACY_REQUESTS = 1_000_000


class Command(BaseCommand):
    help = (
        "Replay arrivals (CSV: t_us,subject,cost[,duration_us]) through one algorithm or a policy document, "
        "or run the scenarios with known results."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--algorithm", metavar="NAME")
        parser.add_argument("--params", metavar="JSON", default="{}", help='{"rate": 100, "per": "1s", "burst": 200}')
        parser.add_argument("--arrivals", metavar="FILE.csv")
        parser.add_argument("--engine", default="reference", help="reference (default) or lua")
        parser.add_argument("--decisions", action="store_true", help="also print every decision, in input order")
        parser.add_argument("--policy", metavar="FILE.yaml", help="a policy document instead of --algorithm")
        parser.add_argument("--policy-name", metavar="NAME", help="which of its policies; not needed if it has one")
        parser.add_argument("--scenario", metavar="N|list", help="one scenario, all, or a list of them")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["engine"] not in ENGINES:
            raise _wrong(f"--engine cannot be {options['engine']!r}; use reference or lua")
        modes = [name for name in ("algorithm", "policy", "scenario") if options[name]]
        if len(modes) != 1:
            raise _wrong("give one of --algorithm, --policy and --scenario")
        try:
            for line in getattr(self, f"_{modes[0]}")(options):
                self.stdout.write(line)
        except (ArrivalsError, SandboxError) as error:
            place = f"{options['arrivals']}: " if isinstance(error, ArrivalsError) else ""
            raise _wrong(f"{place}{error}") from None

    def _algorithm(self, options: dict[str, Any]) -> Iterator[str]:
        limit = _limit(options["algorithm"], options["params"])
        with _arrivals(options["arrivals"]) as arrivals:
            if options["engine"] == "lua":
                with Sandbox() as sandbox:
                    yield decisions_json(replay_on_store(sandbox, limit, arrivals), options["decisions"])
            else:
                yield decisions_json(replay.replay([limit], arrivals), options["decisions"])

    def _policy(self, options: dict[str, Any]) -> Iterator[str]:
        if options["engine"] != "reference":
            raise _wrong("--policy runs on the reference engine only; leave --engine out")
        policy = _policy(options["policy"], options["policy_name"])
        with _arrivals(options["arrivals"]) as arrivals:
            yield from policy_table(policy, replay.replay(policy.limits, arrivals))

    def _scenario(self, options: dict[str, Any]) -> Iterator[str]:
        wanted = options["scenario"]
        if wanted == "list":
            yield from scenario_list()
            return
        if wanted == str(ACCURACY):
            yield from accuracy_table(ACCURACY_REQUESTS)
            return
        numbers = list(SCENARIOS) if wanted == "all" else [int(wanted)] if wanted.isdecimal() else []
        if not numbers or any(number not in SCENARIOS for number in numbers):
            raise _wrong(f"--scenario cannot be {wanted!r}; use list, all, or one of {', '.join(map(str, SCENARIOS))}")
        yield from scenario_table(numbers, options["engine"])


def _wrong(message: str) -> CommandError:
    return CommandError(" ".join(message.split()), returncode=2)


def _limit(algorithm: str, params: str) -> Limit:
    """A limit in units of cost (concurrency: in requests), with a counter for each subject."""
    try:
        fields = json.loads(params)
    except ValueError as error:
        raise _wrong(f"--params is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise _wrong('--params must be a JSON object, such as {"limit": 50, "window": "60s"}')
    unit = "requests" if algorithm == "concurrency" else "cost"
    try:
        limit = limit_parse("limit", {"algorithm": algorithm, **fields, "subject": "key", "unit": unit})
    except ParameterError as error:
        raise _wrong(f"{'--algorithm' if error.field == 'algorithm' else '--params'}: {error.message}") from None
    return on_calendar(limit, "UTC")


def _policy(path: str, name: str | None) -> Policy:
    document = read_document(_text(path))
    if not isinstance(document, Document):
        raise _wrong(f"{path}: {document[0]}")
    policies = {policy.name: policy for policy in document.policies}
    if name is None and len(policies) == 1:
        return _prepared(next(iter(policies.values())))
    if name not in policies:
        raise _wrong(f"{path}: --policy-name must be one of {', '.join(policies) or 'its policies, but it has none'}")
    return _prepared(policies[name])


def _prepared(policy: Policy) -> Policy:
    return replace(policy, limits=tuple(on_calendar(limit, "UTC") for limit in policy.limits))


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None


@contextmanager
def _arrivals(path: str | None) -> Iterator[Iterator[Arrival]]:
    if not path:
        raise _wrong("--arrivals is missing; name a CSV file with the columns t_us,subject,cost")
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            yield read_arrivals(file)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError | UnicodeDecodeError) -> CommandError:
    reason = file_problem(error) if isinstance(error, OSError) else "this is not UTF-8 text"
    return _wrong(f"{path}: {reason}")
