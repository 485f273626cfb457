"""Cuts that are small one by one and large together: what an edit takes is measured against the whole last day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from fractions import Fraction
from typing import Final

from django.db.models import Q
from django.utils import timezone

from quotas.models import Override, Revision
from quotas.policies.compare import NOT_ENFORCED, TOLERATED, Cut, cuts
from quotas.services.earlier import States
from quotas.services.judging import Group, Judgement
from quotas.services.snapshots import OVERRIDE, State, key_of, split_key

LOOKED_BACK: Final = timedelta(days=1)
MOST_STEPS: Final = 8  # the newest ones and the oldest: enough to see where it comes from

Losses = dict[Group, dict[str, Cut]]  # by the limit's name, the worst


def creeping(judgement: Judgement, before: States) -> Iterator[tuple[Group, list[Cut]]]:
    """Of the limits that this edit makes a little tighter, those that lose more than is tolerated since yesterday."""
    small = {group: _tightened(judgement, group) for group in judgement.groups()}
    if not any(small.values()):
        return
    worst: Losses = {}
    for states in _earlier(before):
        for group, found in Judgement.of(judgement.concerned, states).losses():
            for cut in found:
                if cut.before != NOT_ENFORCED:  # what was not there was judged when it came
                    _keep_worst(worst, group, cut)
    for group, limits in worst.items():
        found = [cut for name, cut in limits.items() if name in small.get(group, ())]
        if found:
            yield group, found


def _tightened(judgement: Judgement, group: Group) -> set[str]:
    """By so little that nobody would ask."""
    found = (cuts(period.before, period.after, above=Fraction(0)) for period in judgement.periods(group))
    return {cut.limit for lost in found for cut in lost if cut.percent <= 100 * TOLERATED}


def _keep_worst(worst: Losses, group: Group, cut: Cut) -> None:
    known = worst.setdefault(group, {}).get(cut.limit)
    if known is None or cut.percent > known.percent:
        since = f"{cut.before} within the last day"
        worst[group][cut.limit] = Cut(cut.endpoint, cut.limit, since, cut.after, cut.percent)


def _earlier(before: States) -> Iterator[States]:
    """What this edit touches, as it was before each step of the last day, the newest first."""
    keys = [*before, *_overrides(before)]
    since = timezone.now() - LOOKED_BACK
    rows = Revision.objects.filter(created__gte=since, touched__overlap=keys).order_by("-number")
    steps = list(rows.values_list("before", flat=True)[:MOST_STEPS])
    oldest = rows.order_by("number").values_list("before", flat=True).first()
    states: dict[str, State] = dict(before)
    for step in [*steps, oldest or {}]:
        states |= {key: state for key, state in step.items() if key in keys}
        yield dict(states)


def _overrides(before: States) -> list[str]:
    """The other overrides of whom an override is about: one that follows another is a step of the same stairs."""
    numbers = [split_key(key)[1] for key in before if split_key(key)[0] == OVERRIDE]
    since = timezone.now() - LOOKED_BACK
    recent = Q(created_revision__created__gte=since) | Q(cancelled_at__gte=since)
    rows = Override.objects.filter(recent, tenant__in=Override.objects.filter(pk__in=numbers).values("tenant"))
    return [key_of(OVERRIDE, number) for number in rows.values_list("pk", flat=True)] if numbers else []
