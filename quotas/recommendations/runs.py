"""A whole calibration run: measures and files, and simulates what somebody has edited since.

A slice is some limits: their recommendations depend on no other limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db import transaction
from django.db.models import Q

from quotas.errors import Refused
from quotas.locks import Lock, take_lock
from quotas.long_tasks import Progress, task_file
from quotas.models import Recommendation, Task
from quotas.models.recommendation import Stage
from quotas.recommendations.calibrate import AUTHOR, Calibrated, calibrate, calibrated_until
from quotas.recommendations.lifecycle import recommendation_simulate
from quotas.recommendations.targets import candidates
from quotas.slices import Cut, SlicedWork, in_words, shared_out, task_do
from tenants.identity import Actor, actor_of

MOST_LEFT_OUT = 200  # named in the result of a run


def calibration_ask(*, author: str, reason: str = "") -> Task:
    """Queues a run, or returns the one that is waiting or running."""
    with transaction.atomic():
        take_lock(Lock.TASKS)  # so that two who ask at once get one run
        rows = Task.objects.filter(kind=Task.Kind.CALIBRATE, state__in=[Task.State.WAITING, Task.State.RUNNING])
        return rows.first() or task_file(kind=Task.Kind.CALIBRATE, author=author, asked=_asked(author, reason))


def _asked(author: str, reason: str) -> dict[str, str]:
    return {"reason": reason, "author": author, "identity": actor_of(author).identity}


def _filer(asked: Mapping[str, Any]) -> Actor | None:
    author = asked.get("author", AUTHOR)
    return None if author == AUTHOR else Actor(author, asked["identity"])


def calibration_now(*, author: str, progress: Progress = lambda *_: None) -> Task:
    """Runs in this process, or joins the run that is waiting or running; returns it when it is over."""
    return task_do(calibration_ask(author=author).pk, CALIBRATION, progress)


def _cut(_: Mapping[str, Any]) -> Cut:
    limits = list(candidates().values_list("pk", "policy__name", "name__name"))
    known = {(policy, limit) for _, policy, limit in limits}
    slices: list[dict[str, Any]] = [
        {"what": in_words(f"{limit} of {policy}" for _, policy, limit in part), "limits": [pk for pk, *_ in part]}
        for part in shared_out(limits)
    ]
    drafts = Recommendation.objects.filter(stage=Stage.DRAFT).order_by("id").values_list("pk", "policy", "limit")
    if rest := [pk for pk, *limit in drafts if tuple(limit) not in known]:
        slices.append({"what": "recommendations for limits that are gone", "drafts": rest})
    return Cut({"until": calibrated_until().isoformat()}, slices)


def _do(asked: Mapping[str, Any], part: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The first half of the progress is measuring, the second simulating."""
    found, limits = Calibrated(), part.get("limits", [])
    if limits:
        until = datetime.fromisoformat(asked["until"])
        found = calibrate(
            until, lambda doing, done, total: progress(doing, done, 2 * total), only=limits, filer=_filer(asked)
        )
    drafts = part.get("drafts") or _drafts(limits)
    for place, number in enumerate(drafts):
        progress("simulating", len(drafts) + place, 2 * len(drafts))
        _simulate(number)
    return asdict(found)


def _drafts(limits: Iterable[int]) -> list[int]:
    named = candidates(pk__in=limits).values_list("policy__name", "name__name")
    of_these = reduce(or_, (Q(policy=policy, limit=limit) for policy, limit in named), Q(pk__in=[]))
    return list(Recommendation.objects.filter(of_these, stage=Stage.DRAFT).order_by("id").values_list("pk", flat=True))


def _simulate(number: int) -> None:
    try:
        recommendation_simulate(recommendation=number, author=AUTHOR)
    except Refused as refused:
        Recommendation.objects.filter(pk=number).update(problem=str(refused)[:500])


def _join(_: Mapping[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    counts = ("limits", "idle", "fitting", "insufficient")
    proposed = sorted(number for one in results for number in one["proposed"])
    left_out = [left for one in results for left in one.get("left_out", [])]
    return {
        **{name: sum(one[name] for one in results) for name in counts},
        "days": max((one.get("days", 0.0) for one in results), default=0.0),
        "left_out": left_out[:MOST_LEFT_OUT],
        "skipped": [skipped for one in results for skipped in one.get("skipped", [])][:MOST_LEFT_OUT],
        "proposed": proposed,
    }


CALIBRATION = SlicedWork(_cut, _do, _join)
