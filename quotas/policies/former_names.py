"""Before policies go back to former states: limits that were renamed since get back the names that they had then."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import count

from quotas.changes.snapshot import Draft
from quotas.models import Limit, LimitName
from quotas.models.policy import CANDIDATE_SUFFIX
from quotas.policies.carry_over import events_of
from quotas.policies.limit_names import PolicyStates, is_used, limits_of, live_override, rename_number


@dataclass(frozen=True, slots=True)
class _Rename:
    now: str
    then: str


def take_back_names(opened: Draft, states: PolicyStates, undone: int | None = None) -> None:
    """A limit does not get its name back if a policy that stays as it is or an override uses the number, or if the
    former name was given to another limit that keeps it.

    `undone`: the first of the revisions that are undone. Only with it is it known who had which name, so that limits
    that swapped their names get back their own.
    """
    wanted = {limit for state in states.values() for limit in limits_of(state)}
    if wanted and undone is not None:
        _rename_all(opened, _renamed_since(undone, states, wanted))
    known = set(LimitName.objects.filter(name__in=wanted).values_list("name", flat=True))
    for name in sorted(wanted - known):
        held = next(_once_called(name, states, wanted), None)
        if held is not None and not is_used(name):
            rename_number(opened, held, name)


def _renamed_since(undone: int, states: PolicyStates, wanted: Collection[str]) -> dict[int, _Rename]:
    """By number of the name: the renames to take back."""
    former = {number: name for number, name in _names_before(undone).items() if name in wanted}
    rows = LimitName.objects.in_bulk(list(former))
    found = {
        number: _Rename(row.name, former[number])
        for number, row in rows.items()
        if row.name != former[number] and _is_movable(row, states)
    }
    names = [name for rename in found.values() for name in (rename.then, rename.then + CANDIDATE_SUFFIX)]
    held = set(LimitName.objects.filter(name__in=names).values_list("name", flat=True))
    while kept := {number for number, rename in found.items() if _is_kept(rename.then, held, found)}:
        found = {number: rename for number, rename in found.items() if number not in kept}
    return found


def _is_kept(name: str, held: Set[str], found: Mapping[int, _Rename]) -> bool:
    """Whether another limit has this name and does not give it away."""
    is_given = any(rename.now == name for rename in found.values())
    return not is_given and not held.isdisjoint({name, name + CANDIDATE_SUFFIX})


def _names_before(undone: int) -> dict[int, str]:
    """Of the numbers that got another name in this revision or later: the name that they had until then."""
    events = events_of(LimitName).order_by("pgh_obj_id", "pgh_id")
    firsts = events.filter(pgh_context__revision__gte=undone).distinct("pgh_obj_id")
    first = dict(firsts.values_list("pgh_obj_id", "pgh_id"))
    rows = events.filter(pgh_obj_id__in=first).values_list("pgh_obj_id", "pgh_id", "name") if first else ()
    return {number: name for number, event, name in rows if event < first[number]}


def _rename_all(opened: Draft, renames: Mapping[int, _Rename]) -> None:
    """Those whose name is free go first. In a ring one has to make room."""
    waiting = dict(renames)
    while waiting:
        held = {rename.now for rename in waiting.values()}
        free = next((number for number, rename in waiting.items() if rename.then not in held), None)
        if free is not None:
            rename_number(opened, LimitName.objects.get(number=free), waiting.pop(free).then)
        else:
            number, rename = next(iter(waiting.items()))
            aside = next(name for n in count() if not is_used(name := f"renamed-{number}-{n}"))
            rename_number(opened, LimitName.objects.get(number=number), aside)
            waiting[number] = _Rename(aside, rename.then)


def _once_called(name: str, states: PolicyStates, wanted: Collection[str]) -> Iterator[LimitName]:
    """Numbers that had this name, the last one first, of which only these policies have limits."""
    numbers = events_of(LimitName).filter(name=name).order_by("-pgh_id").values_list("pgh_obj_id", flat=True)
    rows = LimitName.objects.in_bulk(list(numbers))
    for number in dict.fromkeys(numbers):
        row = rows.get(number)
        if row is not None and row.name not in wanted and _is_movable(row, states):
            yield row


def _is_movable(row: LimitName, states: PolicyStates) -> bool:
    others = Limit.objects.filter(name=row.number).exclude(policy__name__in=states)
    return not others.exists() and live_override(row.name) is None
