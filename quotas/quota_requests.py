"""Requests for more quota: asked for by a tenant's user, answered by an approver."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Unpack

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from quotas.changes.draft import Permits
from quotas.changes.promotion import change_promote
from quotas.changes.rollout import change_agree
from quotas.errors import author_and_reason, refuse
from quotas.lookups import find_numbered, find_tenant
from quotas.models import Override
from quotas.models.quota_request import QuotaRequest, RequestAnswer
from quotas.overrides import override_create
from quotas.policies.allowance import amount_fields, parameters_of
from quotas.policies.explain import standing
from tenants.history import acting
from tenants.identity import actor_of

MOST_WAITING = 20  # of one tenant
MOST_WANTED = 2**52  # as of any parameter
FURTHEST = timedelta(days=3_650)


def quota_request_create(
    *,
    tenant: str,
    scope: str,
    limit: str,
    wanted: int,
    author: str,
    reason: str,
    until: datetime | None = None,
    usage: Mapping[str, Any] | None = None,
) -> QuotaRequest:
    author, reason = author_and_reason(author, reason)
    held = _held(tenant, scope, limit)
    if wanted > MOST_WANTED:
        raise refuse("wanted", "range", f"ask for at most {MOST_WANTED:,}")
    if wanted <= held:
        raise refuse("wanted", "less", f"that is not more than what you have, {held:,}; ask for more, or not at all")
    if until is not None and until <= timezone.now():
        raise refuse("until", "past", "until is in the past; choose a later time, or leave it empty")
    if until is not None and until > timezone.now() + FURTHEST:
        raise refuse("until", "far", "until is more than ten years ahead; choose an earlier time, or leave it empty")
    with acting(author=author, action="quota_request_create"), transaction.atomic():
        row = find_tenant(tenant)
        waiting = row.quota_requests.filter(answer=RequestAnswer.WAITING)
        if waiting.filter(scope=scope, limit=limit).exists():
            raise refuse("limit", "taken", "a request for this limit is already waiting; wait for its answer")
        if waiting.count() >= MOST_WAITING:
            raise refuse("limit", "many", f"{MOST_WAITING} requests are already waiting; wait for an answer")
        return QuotaRequest.objects.create(
            tenant=row,
            scope=scope,
            limit=limit,
            wanted=wanted,
            until=until,
            reason=reason,
            usage=dict(usage or {}),
            author=author,
            author_identity=actor_of(author).identity,
        )


def quota_request_grant(
    *, request: int, author: str, reason: str, wanted: int | None = None, **permits: Unpack[Permits]
) -> Override:
    """By an override, with what was asked for or with another value.

    Who asks and who grants are four eyes, as far as the asking went: more than that is the approver's own wish.
    """
    author, reason = author_and_reason(author, reason)
    with transaction.atomic():
        row = _to_answer(request)
        algorithm = _limit(row.tenant.name, row.scope, row.limit).algorithm
        main, size = parameters_of(algorithm)
        held = main.held
        value = wanted or row.wanted
        if value <= held:  # a cut, which nobody asked for
            message = f"that is not more than what {row.tenant.name} has, {held:,}; grant more, or decline the request"
            raise refuse("wanted", "less", message)
        if settings.HEADROOM_FOUR_EYES and value > row.wanted:
            message = f"{row.author} asked for {row.wanted:,}; under four eyes grant that or less"
            raise refuse("wanted", "more", message)
        burst = int(max(size.held, size.held * value // held)) if size else None
        change = change_agree(
            override_create,
            askers=[actor_of(row.author, row.author_identity)],
            why=row.reason,
            approver=actor_of(author),
            reason=reason,
            tenant=row.tenant.name,
            endpoint=row.scope,
            limits={row.limit: amount_fields(algorithm, value, burst)},
            end=row.until,
        )
        revision = change_promote(change=change.pk, author=author, reason=reason, **permits).end_revision_id
        override = Override.objects.get(created_revision=revision)
        _answer(row, RequestAnswer.GRANTED, author, reason, override)
        return override


def quota_request_decline(*, request: int, author: str, reason: str) -> QuotaRequest:
    author, reason = author_and_reason(author, reason)
    with transaction.atomic():
        row = _to_answer(request)
        _answer(row, RequestAnswer.DECLINED, author, reason, None)
        return row


def _to_answer(request: int) -> QuotaRequest:
    rows = QuotaRequest.objects.select_for_update(of=("self",)).select_related("tenant")
    row = find_numbered(rows, request, "request")
    if not row.is_waiting:
        raise refuse("request", "over", f"{row} was already {row.answer}; there is nothing to answer")
    return row


def _answer(row: QuotaRequest, answer: RequestAnswer, author: str, reason: str, override: Override | None) -> None:
    with acting(author=author, action=f"quota_request_{answer}"):
        row.answer, row.answer_author, row.answer_reason = answer, author.strip(), reason.strip()
        row.answered_at, row.override = timezone.now(), override
        row.save()


def _held(tenant: str, scope: str, limit: str) -> float:
    return parameters_of(_limit(tenant, scope, limit).algorithm)[0].held


def _limit(tenant: str, scope: str, limit: str) -> Any:
    for each in standing(tenant=tenant).limits:
        effective = each.effective
        if not effective.is_global and (effective.scope, effective.limit.name) == (scope, limit):
            return effective.limit
    raise refuse("limit", "unknown", f"tenant {tenant} has no limit {limit} on {scope}; choose one of its limits")
