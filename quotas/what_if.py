"""What-if: replays the recorded load of all tenants under the current limits and under those of a document."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from quotas.errors import accepted, refuse
from quotas.long_tasks import EVERY_S, Progress, task_file, task_run
from quotas.models import Arrival, Task
from quotas.policies.apply import document_apply
from quotas.policies.configuration import configuration_load
from quotas.policies.document import Document, read_document
from quotas.policies.layers import PolicyIndex
from quotas.policies.spec import Configuration, to_us
from quotas.simulation.tenant_replay import ReplayPlan, ReplayResult, arrivals_of, replay_load, replay_plan
from quotas.usage.queries.demand import askers_read, endpoint_loads, measured_until
from quotas.usage.queries.sampled_arrivals import SAMPLED

DAYS = 7.0
MOST_DAYS = 30.0
MOST_ROWS = 1_000
MOST_NAMES = 200
MOST_SEEN = 200  # tenants whose results a page can show while the replay runs


Watch = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class _Report:
    order: list[str]  # the busiest tenants, in the order of the replay
    seen: list[dict[str, Any]] = field(default_factory=list)  # their results so far
    rows: list[dict[str, Any]] = field(default_factory=list)
    newly_hurt: list[str] = field(default_factory=list)
    freed: list[str] = field(default_factory=list)
    asked: int = 0
    before: int = 0
    after: int = 0
    tenants: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    judged_before: float = 0.0
    judged_after: float = 0.0
    left_out: set[str] = field(default_factory=set)


def whatif(
    text: str,
    *,
    days: float = DAYS,
    author: str = "what-if",
    progress: Progress = lambda *_: None,
    watch: Watch = lambda _: None,
) -> dict[str, Any]:
    """Changes nothing: the document is applied and rolled back in one transaction. `watch` gets interim results."""
    days = _days(days)
    document = accepted(read_document(text))
    before, after = _both(document, author)
    end = measured_until() or timezone.now()
    begin = end - timedelta(days=days)
    names = {tenant.number: name for name, tenant in before.tenants.items()}
    wanted = [number for number in askers_read(begin, end) if number in names]
    report = _Report([names[number] for number in wanted[:MOST_SEEN]])
    sides = tuple((one, PolicyIndex.of_configuration(one)) for one in (before, after))
    subjects = _subjects(begin, end)
    for place, number in enumerate(wanted):
        progress("replaying", place, len(wanted))
        watch({"order": report.order, "seen": report.seen})
        _replay(report, names[number], number, sides, (begin, end), subjects.get(number, 0))
    return _result(report, begin, end)


def whatif_ask(*, document: str, author: str, days: float = DAYS, reason: str = "") -> Task:
    """Queues the replay for a worker. Refuses a document that cannot be parsed."""
    accepted(read_document(document))
    asked = {"document": document, "days": _days(days), "reason": reason}
    return task_file(kind=Task.Kind.WHAT_IF, author=author, asked=asked)


def whatif_task(number: int) -> None:
    def work(asked: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        return whatif(asked["document"], days=asked["days"], progress=progress, watch=_watcher(number))

    task_run(number, work)


def _watcher(number: int) -> Watch:
    last = [0.0]

    def keep(found: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - last[0] >= EVERY_S:
            last[0] = now
            Task.objects.filter(pk=number).update(result=found)

    return keep


def _days(days: float) -> float:
    if not 0 < days <= MOST_DAYS:
        raise refuse("days", "range", f"days must be above 0 and at most {MOST_DAYS:g}, as long as seconds are kept")
    return days


def _both(document: Document, author: str) -> tuple[Configuration, Configuration]:
    """The configuration as it is, and as the document would make it."""
    with transaction.atomic():
        before = configuration_load()
        document_apply(document=document, author=author, reason="what if", force=True, emergency=True)
        after = configuration_load()
        transaction.set_rollback(True)
    return before, after


def _subjects(begin: datetime, end: datetime) -> dict[int, int]:
    """Tenant number → estimated number of its subjects, from those sampled."""
    pairs = Arrival.objects.filter(at__gte=begin, at__lt=end).order_by().values_list("tenant_number", "subject")
    found: dict[int, int] = {}
    for tenant, _ in pairs.distinct():
        found[tenant] = found.get(tenant, 0) + 1
    return {tenant: round(count * SAMPLED) for tenant, count in found.items()}


def _replay(
    report: _Report,
    name: str,
    number: int,
    sides: tuple[tuple[Configuration, PolicyIndex], ...],
    span: tuple[datetime, datetime],
    subjects: int,
) -> None:
    loads = endpoint_loads(number, *span)
    batch, numbers = arrivals_of(loads), {load.endpoint for load in loads}
    if not len(batch):
        return
    old, new = (
        replay_plan(configuration, index, configuration.tenants[name], to_us(span[1]), numbers)
        for configuration, index in sides
    )
    was = replay_load(old, batch)
    is_same = (old.limits, old.scopes) == (new.limits, new.scopes)
    _note(report, name, sides[0][0].tenants[name].tier, (old, new), (was, was if is_same else replay_load(new, batch)))
    report.bytes_before += old.record_bytes + old.subject_bytes * max(0, subjects - 1)
    report.bytes_after += new.record_bytes + new.subject_bytes * max(0, subjects - 1)


def _note(
    report: _Report,
    name: str,
    tier: str,
    plans: tuple[ReplayPlan, ReplayPlan],
    verdicts: tuple[ReplayResult, ReplayResult],
) -> None:
    was, now = verdicts
    report.tenants += 1
    report.asked, report.before, report.after = (
        report.asked + was.asked,
        report.before + was.denied,
        report.after + now.denied,
    )
    report.judged_before += plans[0].per_check * was.asked
    report.judged_after += plans[1].per_check * was.asked
    report.left_out.update(*(plan.left_out for plan in plans))
    if now.denied and not was.denied:
        report.newly_hurt.append(name)
    if was.denied and not now.denied:
        report.freed.append(name)
    row = {
        "tenant": name,
        "tier": tier,
        "asked": was.asked,
        "denied_before": was.denied,
        "denied_after": now.denied,
        "limits_before": dict(was.by),
        "limits_after": dict(now.by),
    }
    if was.denied or now.denied:
        report.rows.append(row)
    if len(report.seen) < MOST_SEEN:
        report.seen.append(row)


def _result(report: _Report, begin: datetime, end: datetime) -> dict[str, Any]:
    rows = sorted(report.rows, key=lambda row: (-abs(row["denied_after"] - row["denied_before"]), row["tenant"]))
    asked = max(1, report.asked)
    return {
        "begin": begin.isoformat(),
        "end": end.isoformat(),
        "tenants": report.tenants,
        "asked": report.asked,
        "denied_before": report.before,
        "denied_after": report.after,
        "newly_hurt": report.newly_hurt[:MOST_NAMES],
        "newly_hurt_count": len(report.newly_hurt),
        "freed": report.freed[:MOST_NAMES],
        "freed_count": len(report.freed),
        "rows": rows[:MOST_ROWS],
        "order": report.order,
        "seen": report.seen,
        "redis": {
            "bytes_before": report.bytes_before,
            "bytes_after": report.bytes_after,
            "limits_per_check_before": round(report.judged_before / asked, 3),
            "limits_per_check_after": round(report.judged_after / asked, 3),
            "checks_per_second": round(report.asked / max(1.0, (end - begin).total_seconds()), 3),
        },
        "not_replayed": sorted(report.left_out),
    }
