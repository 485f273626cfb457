"""What-if: replays the recorded load of all tenants under the current limits and under those of a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from quotas.changes.commit import Proposed, commit
from quotas.changes.dry_run import dry_run
from quotas.changes.foresight import foreseen
from quotas.errors import accepted, refuse
from quotas.locks import Lock, take_lock
from quotas.long_tasks import OVER, Progress, task_file
from quotas.models import Arrival, Task, TaskSlice
from quotas.models.revision import newest_revision_number
from quotas.policies.apply import document_apply
from quotas.policies.configuration import configuration_load
from quotas.policies.document import MOST_TEXT, read_document
from quotas.policies.layers import PolicyIndex
from quotas.policies.problems import is_fit
from quotas.policies.spec import Configuration, to_us
from quotas.simulation.tenant_replay import arrivals_of, replay_load, replay_plan
from quotas.slices import Cut, SlicedWork, in_words, shared_out
from quotas.usage.queries.demand import askers_read, endpoint_loads, measured_until
from quotas.usage.queries.sampled_arrivals import SAMPLED

DAYS = 7.0
MOST_DAYS = 30.0
MOST_OPEN = 5
MOST_ROWS = 1_000
MOST_NAMES = 200
MOST_SEEN = 200  # tenants whose results a page can show while the replay runs
LEAST_TENANTS = 8  # in a slice, unless there are fewer
SUMMED = (
    *("asked", "denied_before", "denied_after"),
    *("bytes_before", "bytes_after", "judged_before", "judged_after"),
)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The configuration as it is, and as the document would make it."""

    revision: int
    before: Configuration
    after: Configuration
    policies: tuple[PolicyIndex, PolicyIndex]


def whatif(
    text: str, *, days: float = DAYS, author: str = "what-if", progress: Progress = lambda *_: None
) -> dict[str, Any]:
    """Changes nothing: the document is applied and rolled back in one transaction."""
    sides = _sides(text, author)
    facts, wanted = _wanted(sides, _days(days))
    return _join(facts, [_replay_all(sides, facts, wanted, progress)])


def whatif_ask(*, document: str, author: str, days: float = DAYS, reason: str = "") -> Task:
    """Queues the replay for the workers. Refuses a document that cannot be parsed; of much text, the task tells it.

    One author has at most MOST_OPEN that are not over, so that nobody keeps the others waiting, or fills the database.
    """
    if len(document) <= MOST_TEXT or not is_fit(document):
        accepted(read_document(document))
    asked = {"document": document, "days": _days(days), "reason": reason}
    with transaction.atomic():
        take_lock(Lock.TASKS)  # so that those who ask at once are counted
        mine = Task.objects.filter(kind=Task.Kind.WHAT_IF, author=author).exclude(state__in=OVER)
        if mine.count() >= MOST_OPEN:
            message = f"{MOST_OPEN} what-ifs of yours are not done yet; wait until one of them is"
            raise refuse("document", "many", message)
        return task_file(kind=Task.Kind.WHAT_IF, author=author, asked=asked)


def _cut(asked: Mapping[str, Any]) -> Cut:
    facts, wanted = _wanted(_sides(asked["document"], "what-if"), _days(asked["days"]))
    slices = [
        {"what": in_words(name for _, _, name in part), "tenants": part} for part in shared_out(wanted, LEAST_TENANTS)
    ]
    return Cut(facts, slices)


def _do(asked: Mapping[str, Any], part: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    return _replay_all(_known_sides(asked["document"]), asked, part["tenants"], progress)


def _show(number: int) -> None:
    """Stores the results so far of the busiest tenants, for the page."""
    rows = TaskSlice.objects.filter(task=number, state=TaskSlice.State.DONE).values_list("result__seen", flat=True)
    seen = sorted((one for part in rows for one in part), key=lambda one: one["place"])
    order = Task.objects.filter(pk=number).values_list("asked__order", flat=True).first()
    Task.objects.filter(pk=number, state=Task.State.RUNNING).update(result={"order": order, "seen": seen})


@lru_cache(maxsize=1)
def _remembered(document: str, revision: int) -> _Sides:
    return _sides(document, "what-if")


def _known_sides(document: str) -> _Sides:
    """A process that does several slices works out the document once, unless the limits have changed meanwhile."""
    return _remembered(document, newest_revision_number())


def _wanted(sides: _Sides, days: float) -> tuple[dict[str, Any], list[tuple[int, int, str]]]:
    """The span and the busiest tenants; then place, number and name of every tenant to replay, the busiest first."""
    end = measured_until() or timezone.now()
    begin = end - timedelta(days=days)
    names = {tenant.number: name for name, tenant in sides.before.tenants.items()}
    numbers = [number for number in askers_read(begin, end) if number in names]
    wanted = [(place, number, names[number]) for place, number in enumerate(numbers)]
    facts = {"begin": begin.isoformat(), "end": end.isoformat(), "order": [name for *_, name in wanted[:MOST_SEEN]]}
    return facts, wanted


def _days(days: float) -> float:
    if not 0 < days <= MOST_DAYS:
        raise refuse("days", "range", f"days must be above 0 and at most {MOST_DAYS:g}, as long as seconds are kept")
    return days


def _sides(text: str, author: str) -> _Sides:
    document = accepted(read_document(text))
    apply = partial(document_apply, document=document, author=author, reason="what if", force=True)
    with dry_run():
        revision, before = newest_revision_number(), configuration_load()
        outcome = commit(apply, "ask")
        after = foreseen(before, outcome.proposal.after) if isinstance(outcome, Proposed) else before
    indices = (PolicyIndex.of_configuration(before), PolicyIndex.of_configuration(after))
    return _Sides(revision, before, after, indices)


def _subjects(begin: datetime, end: datetime, tenants: Sequence[int]) -> dict[int, int]:
    """Tenant number → estimated number of its subjects, from those sampled."""
    rows = Arrival.objects.filter(at__gte=begin, at__lt=end, tenant_number__in=tenants).order_by()
    found: dict[int, int] = {}
    for tenant, _ in rows.values_list("tenant_number", "subject").distinct():
        found[tenant] = found.get(tenant, 0) + 1
    return {tenant: round(count * SAMPLED) for tenant, count in found.items()}


def _replay_all(
    sides: _Sides, facts: Mapping[str, Any], wanted: Sequence[tuple[int, int, str]], progress: Progress
) -> dict[str, Any]:
    begin, end = (datetime.fromisoformat(facts[name]) for name in ("begin", "end"))
    subjects = _subjects(begin, end, [number for _, number, _ in wanted])
    found = []
    for done, (place, number, name) in enumerate(wanted):
        progress("replaying", done, len(wanted))
        if (row := _replay(sides, name, number, (begin, end), subjects.get(number, 0))) is not None:
            found.append({"place": place, **row})
    progress("replaying", len(wanted), len(wanted))
    seen = [_shown(row) | {"place": row["place"]} for row in found if row["place"] < MOST_SEEN]
    return {"revision": sides.revision, "tenants": found, "seen": seen}


def _replay(
    sides: _Sides, name: str, number: int, span: tuple[datetime, datetime], subjects: int
) -> dict[str, Any] | None:
    loads = endpoint_loads(number, *span)
    batch, numbers = arrivals_of(loads), {load.endpoint for load in loads}
    if not len(batch):
        return None
    old, new = (
        replay_plan(configuration, index, configuration.tenants[name], to_us(span[1]), numbers)
        for configuration, index in zip((sides.before, sides.after), sides.policies, strict=True)
    )
    was = replay_load(old, batch)
    is_same = (old.limits, old.scopes) == (new.limits, new.scopes)
    now = was if is_same else replay_load(new, batch)
    others = max(0, subjects - 1)
    return {
        "tenant": name,
        "tier": sides.before.tenants[name].tier,
        "asked": was.asked,
        "denied_before": was.denied,
        "denied_after": now.denied,
        "limits_before": dict(was.by),
        "limits_after": dict(now.by),
        "judged_before": old.per_check * was.asked,
        "judged_after": new.per_check * was.asked,
        "bytes_before": old.record_bytes + old.subject_bytes * others,
        "bytes_after": new.record_bytes + new.subject_bytes * others,
        "left_out": {**old.left_out, **new.left_out},
        "adapting": sorted({*old.adapting, *new.adapting}),
    }


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("tenant", "tier", "asked", "denied_before", "denied_after", "limits_before", "limits_after")
    return {name: row[name] for name in names}


def _join(facts: Mapping[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    """In the order of the tenants, so that no sum depends on how they were shared out."""
    all_rows = sorted((row for one in results for row in one["tenants"]), key=lambda row: row["place"])
    totals = {name: sum(row[name] for row in all_rows) for name in SUMMED}
    denied = [_shown(row) for row in all_rows if row["denied_before"] or row["denied_after"]]
    newly_hurt = [row["tenant"] for row in denied if not row["denied_before"]]
    freed = [row["tenant"] for row in denied if not row["denied_after"]]
    begin, end = (datetime.fromisoformat(facts[name]) for name in ("begin", "end"))
    asked = max(1, totals["asked"])
    return {
        "begin": facts["begin"],
        "end": facts["end"],
        "tenants": len(all_rows),
        "asked": totals["asked"],
        "denied_before": totals["denied_before"],
        "denied_after": totals["denied_after"],
        "newly_hurt": newly_hurt[:MOST_NAMES],
        "newly_hurt_count": len(newly_hurt),
        "freed": freed[:MOST_NAMES],
        "freed_count": len(freed),
        "rows": sorted(denied, key=_moved)[:MOST_ROWS],
        "order": facts["order"],
        "seen": [_shown(row) for row in all_rows[:MOST_SEEN]],
        "redis": {
            "bytes_before": totals["bytes_before"],
            "bytes_after": totals["bytes_after"],
            "limits_per_check_before": round(totals["judged_before"] / asked, 3),
            "limits_per_check_after": round(totals["judged_after"] / asked, 3),
            "checks_per_second": round(totals["asked"] / max(1.0, (end - begin).total_seconds()), 3),
        },
        "not_replayed": sorted({name for row in all_rows for name in row["left_out"]}),
        "notes": list(_notes(all_rows)),
        "revisions": sorted({one["revision"] for one in results}),
    }


def _notes(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the numbers leave out, in sentences."""
    reasons: dict[str, set[str]] = {}
    for row in rows:
        for name, why in row["left_out"].items():
            reasons.setdefault(why, set()).add(name)
    for why, names in sorted(reasons.items()):
        yield f"{', '.join(sorted(names))}: not replayed, because {why}."
    if adapting := sorted({name for row in rows for name in row["adapting"]}):
        yield f"{', '.join(adapting)}: replayed as configured, without following the health of the endpoint."


def _moved(row: Mapping[str, Any]) -> tuple[int, str]:
    return -abs(row["denied_after"] - row["denied_before"]), row["tenant"]


WHAT_IF = SlicedWork(_cut, _do, _join, _show)
