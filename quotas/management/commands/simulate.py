"""Replays arrivals through a limit or a policy, or runs the scenarios, without touching a live Redis."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any

from django.core.management.base import BaseCommand, CommandError

from headroom_edge.algorithms.base import ParameterError, counted
from quotas.backtest.file_problem import file_problem
from quotas.management.progress_bar import ProgressBar
from quotas.policies.document import Document, read_document
from quotas.policies.limit_codec import limit_parse
from quotas.policies.problems import CompileError
from quotas.policies.spec import Limit
from quotas.simulation import replay
from quotas.simulation.arrivals_csv import Arrival, ArrivalsError, read_arrivals
from quotas.simulation.policy_replay import MOST_TENANTS, PolicyWorld, ReferenceReplay, ReplayStep, on_store
from quotas.simulation.policy_report import Comparison, comparison_tables, reference_only, side_by_side
from quotas.simulation.reference_plan import on_calendar
from quotas.simulation.replay import ReplayedArrival
from quotas.simulation.report import ACCURACY, accuracy_table, decisions_json, scenario_list, scenario_table
from quotas.simulation.sandbox import Sandbox, SandboxError, replay_on_store
from quotas.simulation.scenarios import SCENARIOS

ENGINES = ("reference", "lua")
ACCURACY_REQUESTS = 1_000_000
LONG = 20_000  # requests, from which on progress is shown
EVERY = 500


class Command(BaseCommand):
    help = (
        "Replay arrivals (CSV: t_us,subject,cost[,duration_us]) through one algorithm, or (CSV with a column for each "
        "dimension: t_us,cost,team,key) through a policy document on both engines, or run the scenarios with known "
        "results. docs/simulate.md"
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--algorithm", metavar="NAME")
        parser.add_argument("--params", metavar="JSON", default="{}", help='{"rate": 100, "per": "1s", "burst": 200}')
        parser.add_argument("--arrivals", metavar="FILE.csv")
        parser.add_argument("--engine", help="reference or lua; a policy runs on both unless this says reference")
        parser.add_argument("--decisions", action="store_true", help="also print every decision, in input order")
        parser.add_argument("--policy", metavar="FILE.yaml", help="a policy document instead of --algorithm")
        parser.add_argument("--policy-name", metavar="NAME", help="one of its policies; otherwise all of them")
        parser.add_argument("--scenario", metavar="N|list", help="one scenario, all, or a list of them")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["engine"] not in (None, *ENGINES):
            raise _wrong(f"--engine cannot be {options['engine']!r}; use reference or lua")
        modes = [name for name in ("algorithm", "policy", "scenario") if options[name]]
        if len(modes) != 1:
            raise _wrong("give one of --algorithm, --policy and --scenario")
        try:
            for line in getattr(self, f"_{modes[0]}")(options):
                self.stdout.write(line)
        except (ArrivalsError, SandboxError, CompileError) as error:
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
        if options["engine"] == "lua":
            raise _wrong("--policy runs on both engines, or on the reference engine alone; leave --engine out")
        world = _world(options["policy"], options["policy_name"])
        engines = ENGINES[:1] if options["engine"] else ENGINES
        found, bar = Comparison.of(world, engines), ProgressBar(self.stderr)
        with _twice(options["arrivals"]) as file:
            world, count = _survey(world, file)
            for step, decisions in _decisions(world, read_arrivals(file, world.subjects), len(engines) > 1):
                found.add(step, decisions)
                if count >= LONG and found.requests % EVERY == 0:
                    bar.show("replaying", found.requests, count)
        bar.end()
        yield from comparison_tables(world, found)
        check_agreement(found)

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
        yield from scenario_table(numbers, options["engine"] or ENGINES[0])


def check_agreement(found: Comparison) -> None:
    if found.differences:
        differ = f"{found.differences:,} of {counted(found.requests, 'decision')}"
        raise CommandError(f"The engines differ in {differ}; this is a bug of Headroom.", returncode=1)


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
    unit = "requests" if algorithm in ("concurrency", "adaptive_concurrency") else "cost"
    try:
        limit = limit_parse("limit", {"algorithm": algorithm, **fields, "subject": "key", "unit": unit})
    except ParameterError as error:
        raise _wrong(f"{'--algorithm' if error.field == 'algorithm' else '--params'}: {error.message}") from None
    return on_calendar(limit, "UTC")


def _world(path: str, name: str | None) -> PolicyWorld:
    """All policies of the document, or the one that is named."""
    document = read_document(_text(path))
    if not isinstance(document, Document):
        raise _wrong(f"{path}: {document[0]}")
    policies = {policy.name: policy for policy in document.policies}
    if name is not None or not policies:
        if name not in policies:
            listed = ", ".join(policies) or "its policies, but it has none"
            raise _wrong(f"{path}: --policy-name must be one of {listed}")
        return _with_priorities(PolicyWorld.of([policies[name]]), document)
    tiers = sorted({policy.tier for policy in document.policies if policy.tier})
    if len(tiers) > 1:
        raise _wrong(f"{path}: its policies are of the tiers {', '.join(tiers)}; name one with --policy-name")
    return _with_priorities(PolicyWorld.of(document.policies), document)


def _with_priorities(world: PolicyWorld, document: Document) -> PolicyWorld:
    tiers = {tier.name: tier.priority or "" for tier in document.tiers}
    priorities = {endpoint.name: endpoint.priority for endpoint in document.endpoints}
    return replace(world, priorities=priorities, highest=tiers.get(world.tier, ""))


def _survey(world: PolicyWorld, file: IO[str]) -> tuple[PolicyWorld, int]:
    """Reads the whole file before anything is replayed: who asks, how many requests, and whether a line is wrong."""
    counter = count()
    arrivals = (arrival for arrival, _ in zip(read_arrivals(file, world.subjects), counter, strict=False))
    world = world.visited_by(arrivals)
    if len(world.tenants) > MOST_TENANTS:
        raise ArrivalsError(f"{len(world.tenants):,} tenants are too many; at most {MOST_TENANTS:,}")
    file.seek(0)
    return world, next(counter)


def _decisions(
    world: PolicyWorld, arrivals: Iterator[Arrival], on_both: bool
) -> Iterator[tuple[ReplayStep, Sequence[ReplayedArrival]]]:
    steps = ReferenceReplay(world).steps(arrivals)
    if not on_both:
        yield from reference_only(steps)
        return
    with Sandbox() as sandbox:
        yield from side_by_side(on_store(sandbox, world, steps))


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None


@contextmanager
def _twice(path: str | None) -> Iterator[IO[str]]:
    """The file, from its beginning as often as it is wound back; a pipe is copied first."""
    with _opened(path) as file:
        if file.seekable():
            yield file
            return
        with TemporaryFile("w+", encoding="utf-8", newline="") as copy:
            copyfileobj(file, copy)
            copy.seek(0)
            yield copy


@contextmanager
def _arrivals(path: str | None) -> Iterator[Iterator[Arrival]]:
    with _opened(path) as file:
        yield read_arrivals(file)


@contextmanager
def _opened(path: str | None) -> Iterator[IO[str]]:
    if not path:
        raise _wrong("--arrivals is missing; name a CSV file with the columns t_us,subject,cost")
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            yield file
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError | UnicodeDecodeError) -> CommandError:
    reason = file_problem(error) if isinstance(error, OSError) else "this is not UTF-8 text"
    return _wrong(f"{path}: {reason}")
