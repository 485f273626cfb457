"""The lifecycle of a recommendation: simulate, edit, approve, try in shadow, enforce; or dismiss, or roll back.

Once it is approved, a recommendation is its change: it shows the state that the change is in, whoever moves that
(`quotas.changes.recommended`), and has only its evaluation for itself. An override that only raises a tenant's limit
cannot deny more requests, so it needs no shadow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from headroom_edge.algorithms.base import Algorithm, ParameterError
from quotas.calibration.parameters import Parameters
from quotas.calibration.sizing import is_sized, resized_exactly
from quotas.changes.commit import commit
from quotas.changes.freeze import pass_freezes
from quotas.changes.impact import Impact
from quotas.changes.promotion import change_promote
from quotas.changes.recommended import follow
from quotas.changes.rollout import change_accept_cuts, change_agree, change_drop, change_start
from quotas.changes.trial_rule import TrialRule
from quotas.changes.turn import turn
from quotas.changes.two_people import check_two
from quotas.changes.undo import revert_change
from quotas.errors import Refused, author_and_reason, refuse
from quotas.long_tasks import Progress
from quotas.lookups import find_numbered
from quotas.models import Change, Limit, Override, Recommendation
from quotas.models.change import ChangeState
from quotas.models.recommendation import Kind, Stage, Trust
from quotas.models.revision import newest_revision_number
from quotas.overrides import override_cancel, override_create
from quotas.policies.edit import limit_set
from quotas.policies.limit_codec import algorithm_dump, algorithm_load, fields_of_stored, row_fields, row_stored
from quotas.recommendations.calibrate import AUTHOR
from quotas.recommendations.forecast import forecast_of
from quotas.recommendations.settings import calibration_parameters
from quotas.recommendations.staleness import stale_reason
from quotas.recommendations.targets import target_of
from tenants.history import acting
from tenants.identity import Actor, actor_of

LONGEST = 500
LEAST_RATE = 1e-6  # per second
MOST_RATE = 1e9
MOST_BURST = 10**12


def recommendation_simulate(
    *,
    recommendation: int,
    author: str,
    progress: Progress = lambda *_: None,
    check: Callable[[], None] = lambda: None,
) -> Recommendation:
    """Replays recorded traffic through the current and the proposed limit.

    `check` is called when the replay is done and the recommendation is locked; if it raises, nothing is kept.
    """
    row = find_numbered(Recommendation.objects.all(), recommendation, "recommendation")
    _check_stage(row, "simulated", Stage.DRAFT, Stage.SIMULATED)
    target = target_of(row.policy, row.limit)
    if target is None:
        raise refuse(
            "recommendation",
            "gone",
            f"{row} is about a limit that no longer exists or now counts something else; dismiss it",
        )
    forecast, weeks = forecast_of(row, target, calibration_parameters(), row.measured_at, progress)
    with _acting(author, "recommendation_simulate"):
        replayed, row = row, _locked(recommendation)
        check()
        _check_stage(row, "simulated", Stage.DRAFT, Stage.SIMULATED)
        if (row.current, row.proposed) != (replayed.current, replayed.proposed):
            raise refuse("recommendation", "touched_since", f"{row} was edited since; simulate it again")
        row.forecast, row.stage = forecast, Stage.SIMULATED
        row.evidence = {**row.evidence, "weeks": weeks}
        row.save()
    return row


def recommendation_edit(
    *, recommendation: int, rate: float | None, burst: int, author: str, reason: str
) -> Recommendation:
    """Sets another rate (per second) and burst. The recommendation must be simulated again.

    The burst of a window is its limit, and its rate follows from it: None, or that rate.
    """
    author, reason = author_and_reason(author, reason)
    with _acting(author, "recommendation_edit"):
        row = _locked(recommendation)
        _check_stage(row, "edited", Stage.DRAFT, Stage.SIMULATED)
        row.proposed = algorithm_dump(_edited(algorithm_load(row.current), rate, burst))
        row.editor, row.editor_identity = author, actor_of(author).identity
        row.stage, row.forecast = Stage.DRAFT, {}
        row.reason = reason
        row.save()
    return row


def recommendation_approve(*, recommendation: int, author: str, reason: str) -> Recommendation:
    """Starts the shadow as soon as the policy is free. A raise for one tenant takes effect at once."""
    author, reason = author_and_reason(author, reason)
    with turn(), acting(author=author, action="recommendation_approve"):
        row = _locked(recommendation)
        _check_stage(row, "approved", Stage.SIMULATED)
        passed = pass_freezes(author=author, action="recommendation_approve")
        passed.record(action="recommendation_approve", author=author, reason=reason, what=str(row))
        approver = actor_of(author)
        _check_approver(row, approver)
        check_fresh(row)
        row.stage, row.reason, row.decided_at = Stage.APPROVED, reason, timezone.now()
        row.decider, row.decider_identity = author, approver.identity
        row.save()
        start_trial(row)
    return row


def check_fresh(row: Recommendation) -> None:
    """Refuses to decide on what was measured under another configuration."""
    if reason := stale_reason(row):
        message = f"{row} is stale: {reason} since it was measured. Measure it again before you approve it"
        raise refuse("recommendation", "stale", message)


def recommendations_sure() -> QuerySet[Recommendation]:
    """What `recommendations_approve` would approve now."""
    return Recommendation.objects.filter(stage=Stage.SIMULATED, trust=Trust.HIGH).order_by("id")


@dataclass(frozen=True, slots=True)
class BulkApproval:
    approved: list[Recommendation]
    refused: dict[int, str]  # recommendation → why


def recommendations_approve(*, author: str, reason: str) -> BulkApproval:
    """Approves all simulated ones of high confidence. One that is refused stays as it is, and the answer says why."""
    pass_freezes(author=author)
    done = BulkApproval([], {})
    for number in recommendations_sure().values_list("pk", flat=True):
        try:
            done.approved.append(recommendation_approve(recommendation=number, author=author, reason=reason))
        except Refused as refused:
            done.refused[number] = str(refused)
    return done


def recommendation_dismiss(*, recommendation: int, author: str, reason: str) -> Recommendation:
    author, reason = author_and_reason(author, reason)
    with turn(), acting(author=author, action="recommendation_dismiss"):
        row = _locked(recommendation)
        _check_stage(row, "dismissed", Stage.INSUFFICIENT, Stage.DRAFT, Stage.SIMULATED, Stage.APPROVED, Stage.SHADOW)
        if row.change is not None and not row.change.is_over:
            change_drop(change=row.change.pk, author=author, reason=reason)
            row.refresh_from_db()
        if row.proposed is None:
            row.proposed = row.current
        _end(row, Stage.DISMISSED, author, reason)
    return row


def recommendation_enforce(
    *,
    recommendation: int,
    author: str,
    reason: str,
    early: bool = False,
    now: datetime | None = None,
    force: bool = False,
    accept: Collection[str] = (),
) -> Recommendation:
    """Promotes its change. Before the shadow has lasted long enough, `early` is required.

    It may cut what the approver saw. More than that is refused with names, unless `force` and `accept` cover it.
    """
    author, reason = author_and_reason(author, reason)
    now = now or timezone.now()
    with turn(), acting(author=author, action="recommendation_enforce"):
        row = _locked(recommendation)
        _check_stage(row, "enforced", Stage.SHADOW)
        due = shadow_ends(row, calibration_parameters())
        if now < due and not early:
            message = (
                f"{row} stays in shadow until {due:%Y-%m-%d %H:%M} UTC; wait, or enforce it early and give a reason"
            )
            raise refuse("early", "too_early", message)
        if row.change is None:
            raise refuse("recommendation", "change", f"{row} no longer has its change; dismiss it")
        change_promote(change=row.change.pk, author=author, reason=reason, force=force, accept=accept)
        row.refresh_from_db()
        row.enforced_at = now
        row.save(update_fields=["enforced_at"])
    return row


def recommendation_roll_back(
    *, recommendation: int, author: str, reason: str, now: datetime | None = None
) -> Recommendation:
    """Restores the limit from before."""
    author, reason = author_and_reason(author, reason)
    with turn(), acting(author=author, action="recommendation_roll_back"):
        row = _locked(recommendation)
        _check_stage(row, "rolled back", Stage.ENFORCED, Stage.EVALUATED)
        undo(row, author=author, reason=reason)
        row.refresh_from_db()
        _end(row, Stage.ROLLED_BACK, author, reason, now)
    return row


def start_trial(row: Recommendation) -> None:
    """Files and starts the change of an approved recommendation. If that is refused, `problem` says why."""
    try:
        with transaction.atomic():
            if row.kind == Kind.OVERRIDE:
                _start_override(row)
            else:
                _start_shadow(row)
            row.problem = ""
    except Refused as refused:
        row.problem = str(refused)[:LONGEST]
    row.save()


def recommendation_impact(row: Recommendation) -> Impact:
    """Whom it cuts, for whoever is about to approve it: that much may be cut later without asking again."""
    if row.proposed is None or row.kind == Kind.OVERRIDE:
        return Impact()
    try:
        wanted = {"name": row.limit, **row_fields(_limit(row), row.proposed)}
        edit = partial(limit_set, policy=row.policy, limit=wanted, author=AUTHOR, reason="to see", force=True)
        return commit(edit, "ask").impact
    except Refused:
        return Impact()  # approving it tells why it cannot go on


def undo(row: Recommendation, *, author: str, reason: str) -> None:
    """Takes the promotion of its change back."""
    _write_former(row, author=author, reason=reason)
    if row.change is not None and row.change.state == ChangeState.PROMOTED:
        revert_change(row.change, ChangeState.REVERTED, author, reason, newest_revision_number())


def _write_former(row: Recommendation, *, author: str, reason: str) -> None:
    if row.kind == Kind.OVERRIDE:
        override_cancel(override=_override(row), author=author, reason=reason, **_PERMITTED)
        return
    live = _limit(row)
    if row_stored(live) != row.proposed:
        message = f"limit {row.limit} of policy {row.policy} was changed since; edit the limit instead"
        raise refuse("recommendation", "touched_since", message)
    limit_set(
        policy=row.policy,
        limit={"name": row.limit, **row_fields(live, row.current)},
        author=author,
        reason=reason,
        **_PERMITTED,
    )


def shadow_ends(row: Recommendation, parameters: Parameters, since: datetime | None = None) -> datetime:
    return (since or row.shadow_at or timezone.now()) + timedelta(hours=parameters.shadow_hours)


# Going back to the limit from before takes nothing that was there before, and must not wait for an approval.
_PERMITTED: Any = {"force": True, "by_design": True}


def _start_shadow(row: Recommendation) -> None:
    if row.proposed is None:
        raise refuse("recommendation", "nothing", f"{row} proposes nothing")
    wanted = {"name": row.limit, **row_fields(_limit(row), row.proposed)}
    reason = f"{row}: {row.reason}"[:LONGEST]
    change = change_agree(limit_set, policy=row.policy, limit=wanted, **_agreed(row, reason))
    change_accept_cuts(change)
    now = timezone.now()
    rule = TrialRule(ends=shadow_ends(row, calibration_parameters(), now))
    _carry_out(row, change_start(change=change.pk, mode="shadow", author=row.decider, reason=reason, rule=rule))


def _carry_out(row: Recommendation, change: Change) -> None:
    """From here on, the change says at which stage the recommendation is."""
    row.change = change
    row.save(update_fields=["change"])
    follow(change)
    row.refresh_from_db()


def _start_override(row: Recommendation) -> None:
    limits = {row.limit: fields_of_stored(row.proposed) if row.proposed else {}}
    reason = f"{row}: {row.reason}"[:LONGEST]
    change = change_agree(
        override_create, tenant=row.tenant, endpoint=row.endpoint, limits=limits, **_agreed(row, reason)
    )
    _carry_out(row, change_promote(change=change.pk, author=row.decider, reason=reason))


def _check_approver(row: Recommendation, approver: Actor) -> None:
    part = "is the author" if row.is_edited else "chose parameters of its calibration, or asked for it"
    for asker in _askers(row):
        check_two(asker=asker, approver=approver, part=part)


def _askers(row: Recommendation) -> list[Actor]:
    """Whose values they are: the last editor's, who wrote all of them; otherwise of those who shaped the calibration.

    If nobody did, they are the job's.
    """
    if row.is_edited:
        return [actor_of(row.editor, row.editor_identity)]
    return [actor_of(one["author"], one["identity"]) for one in row.askers] or [Actor(AUTHOR)]


def _agreed(row: Recommendation, reason: str) -> dict[str, Any]:
    decider = actor_of(row.decider, row.decider_identity)
    return {"askers": _askers(row), "why": reason, "approver": decider, "reason": reason}


def _end(row: Recommendation, stage: Stage, author: str, reason: str, now: datetime | None = None) -> None:
    row.stage, row.reason, row.ended_at = stage, reason, now or timezone.now()
    row.decider, row.decider_identity = author, actor_of(author).identity
    row.save()


def _override(row: Recommendation) -> int:
    revision = row.change.end_revision_id if row.change else None
    made = Override.objects.filter(tenant__name=row.tenant, created_revision=revision or 0)
    if (number := made.values_list("pk", flat=True).first()) is None:
        raise refuse("recommendation", "gone", f"the override of {row} no longer exists")
    return number


def _limit(row: Recommendation) -> Limit:
    found = Limit.objects.select_related("name").filter(policy__name=row.policy, name__name=row.limit).first()
    if found is None:
        raise refuse("recommendation", "gone", f"policy {row.policy} no longer has a limit {row.limit}; dismiss it")
    return found


def _edited(algorithm: Algorithm, rate: float | None, burst: int) -> Algorithm:
    if not is_sized(algorithm):
        raise refuse("recommendation", "kind", f"{algorithm.name} has no rate and burst to edit")
    if rate is not None and not 0 < rate <= MOST_RATE:
        raise refuse("rate", "range", f"rate must be above 0 and at most {MOST_RATE:,.0f} per second")
    if not 1 <= burst <= MOST_BURST:
        raise refuse("burst", "range", f"burst must be from 1 to {MOST_BURST:,}")
    try:
        return resized_exactly(algorithm, rate, burst)
    except ParameterError as error:
        raise refuse(error.field, error.code, error.message) from None


def _locked(number: int) -> Recommendation:
    rows = Recommendation.objects.select_for_update(of=("self",)).select_related("change")
    return find_numbered(rows, number, "recommendation")


def _check_stage(row: Recommendation, verb: str, *stages: Stage) -> None:
    if row.stage not in stages:
        allowed = " or ".join(stage.label.lower() for stage in stages)
        message = f"{row} is {row.get_stage_display().lower()}, and only one that is {allowed} can be {verb}"
        raise refuse("recommendation", "over" if row.is_over else "stage", message)


@contextmanager
def _acting(author: str, action: str) -> Iterator[None]:
    with acting(author=author, action=action), transaction.atomic():
        yield
