"""Pending changes: read, start in shadow or canary, schedule, approve, promote or drop them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from django.db.models import Prefetch
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import EMERGENCY, FORCE, ChangeQuery, Edit, Signed, changed, signed
from api.inputs import Choice, Fields, Flag, Moment, Number, Reasoned, Strict, Text, Whole, Word, body, query
from api.openapi.describe import ImpactOut, ObjectDiffOut, changes, lists, reads
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from quotas.changes.affected import Effect, effect_of
from quotas.changes.approval import change_approve
from quotas.changes.guard import ANYBODY
from quotas.changes.impact import Impact, WorstCut
from quotas.changes.promotion import MOST_DAYS, change_impact, change_promote
from quotas.changes.rollout import MODES, change_drop, change_start
from quotas.models import Approval, Change
from quotas.models.change import ChangeState
from quotas.policies.diff import differences

MOST_SPARED = 1_000
TENANT_OR_ALL = r"\*|[a-z0-9][a-z0-9-]{0,62}"
SPARED = "Tenants that keep their current limits; each gets an override. `*`: all tenants whose limits are cut."
ACCEPTED = (
    "Tenants that may be cut below their peak, which `force` alone does not allow. "
    "`impact.below` of a dry run lists them. `*`: all of them."
)
SEEN = "The cuts that you have seen, as `impact.worst` of a dry run lists them. They cover no deeper ones."


class ApprovalOut(serializers.Serializer[Any]):
    approver = serializers.CharField()
    reason = serializers.CharField()
    at = serializers.DateTimeField()


class ChangeOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    state = serializers.ChoiceField(choices=ChangeState.values)
    action = serializers.CharField()
    author = serializers.CharField()
    reason = serializers.CharField()
    created = serializers.DateTimeField()
    at = serializers.DateTimeField(allow_null=True, help_text="When it is due.")
    share_percent = serializers.SerializerMethodField(help_text="The canary's share of tenants.")
    touched = serializers.ListField(child=serializers.CharField())
    grandfather = serializers.ListField(
        child=serializers.CharField(), help_text="Tenants that keep their current limits; each gets an override."
    )
    problem = serializers.CharField(help_text="Why the change is blocked.")
    start_revision = serializers.IntegerField(source="start_revision_id", allow_null=True)
    end_revision = serializers.IntegerField(source="end_revision_id", allow_null=True)
    revert_revision = serializers.IntegerField(
        source="revert_revision_id", allow_null=True, help_text="The revision that took its promotion back."
    )
    end_author = serializers.CharField(help_text="Who promoted or dropped it.")
    end_reason = serializers.CharField()

    def get_share_percent(self, row: Change) -> float | None:
        return None if row.share is None else row.share / 10


class WholeChangeOut(ChangeOut):
    changes = serializers.SerializerMethodField(help_text="The diff against the state when the change was created.")
    impact = ImpactOut(help_text="The limits that it cuts, as last computed.")
    approvals = ApprovalOut(many=True)

    @extend_schema_field(ObjectDiffOut(many=True))
    def get_changes(self, row: Change) -> list[dict[str, Any]]:
        return [asdict(change) for change in differences(row.before, row.after)]


class Spared(serializers.ListField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=Word(TENANT_OR_ALL), max_length=MOST_SPARED, help_text=SPARED, **kwargs)


class Accepted(serializers.ListField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=Word(TENANT_OR_ALL), max_length=MOST_SPARED, help_text=ACCEPTED, **kwargs)


class SeenCut(Strict):
    endpoint = Text(max_length=128)
    limit = Text(max_length=80)
    percent = Number(min_value=0, max_value=100)


class Forced(Reasoned):
    force = Flag(default=False, help_text=FORCE)
    emergency = Flag(default=False, help_text=EMERGENCY)


class Start(Forced):
    mode = Choice(choices=MODES)
    at = Moment(required=False, allow_null=True, help_text="When it is due; for `scheduled` only.")
    share_percent = Number(
        required=False, allow_null=True, min_value=0.1, max_value=99.9, help_text="For `canary` only."
    )
    grandfather = Spared(default=list)
    accept = Accepted(default=list)

    rules = {
        "oneOf": [
            {"properties": {"mode": {"const": "shadow"}}},
            {"properties": {"mode": {"const": "scheduled"}, "at": {"type": "string"}}, "required": ["at"]},
            {
                "properties": {"mode": {"const": "canary"}, "share_percent": {"type": "number"}},
                "required": ["share_percent"],
            },
        ]
    }


class Promotion(Forced):
    grandfather = Spared(required=False)
    grandfather_days = Whole(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MOST_DAYS,
        help_text="How long those tenants keep their limits. null: without end.",
    )
    accept = Accepted(default=list)
    cuts = SeenCut(many=True, required=False, allow_null=True, help_text=SEEN)


class ChangesQuery(PageQuery):
    state = serializers.ChoiceField(choices=ChangeState.values, required=False)
    author = serializers.CharField(required=False, max_length=150)
    object = serializers.CharField(
        required=False, max_length=140, help_text="An object that the change touches, such as `policy:pro-all`."
    )
    order = order_field("created", default="-created")
    search = search_field("the reason")

    orders = {"created": "id"}
    lookups = {"state": "state", "author": "author", "object": "touched__contains"}
    searched = ("reason",)


class ChangeList(APIView):
    @lists(ChangesQuery, ChangeOut)
    def get(self, request: Request) -> Response:
        """Changes that were proposed, started, promoted or dropped, newest first."""
        return listed(request, ChangesQuery, Change.objects.defer("before", "after", "impact"), ChangeOut)


class ChangeDetail(APIView):
    @reads(WholeChangeOut)
    def get(self, request: Request, number: int) -> Response:
        """One change: its state, its diff and the limits that it cuts."""
        return shown(request, _change(number))


class ChangeStart(APIView):
    @changes(Start, WholeChangeOut)
    def post(self, request: Request, number: int) -> Response:
        """Starts a change in shadow, as a canary or at a set time. A running canary can be given another share."""
        fields = _seen_whole(request, body(Start, request))
        who = signed(request, fields)
        return _staged(
            request,
            number,
            partial(change_start, change=number, **_permits(fields)),
            who,
            lambda: change_impact(change=number, author=who["author"], grandfather=fields["grandfather"]),
        )


class ChangePromote(APIView):
    @changes(Promotion, WholeChangeOut)
    def post(self, request: Request, number: int) -> Response:
        """Enforces a change for all tenants."""
        fields = _seen_whole(request, body(Promotion, request))
        if (cuts := fields.pop("cuts", None)) is not None:
            fields["cuts"] = [WorstCut(**cut) for cut in cuts]
        who = signed(request, fields)
        spared = fields.get("grandfather")
        return _staged(
            request,
            number,
            partial(change_promote, change=number, **_permits(fields)),
            who,
            lambda: change_impact(
                change=number,
                author=who["author"],
                grandfather=spared or _spared_by(number),
                grandfather_days=fields.get("grandfather_days"),
            ),
        )


class ChangeDrop(APIView):
    @changes(Reasoned, WholeChangeOut)
    def post(self, request: Request, number: int) -> Response:
        """Drops a change. A shadow or canary ends at once."""
        who = signed(request, body(Reasoned, request))
        return _staged(request, number, partial(change_drop, change=number), who)


class ChangeApprove(APIView):
    @changes(Reasoned, WholeChangeOut)
    def post(self, request: Request, number: int) -> Response:
        """Approves a change. Its author cannot approve it."""
        who = signed(request, body(Reasoned, request))
        return _staged(request, number, partial(_approved, number), who)


def _staged(
    request: Request,
    number: int,
    call: Callable[..., Change],
    who: Signed,
    impact: Callable[[], Impact] | None = None,
) -> Response:
    """A dry run shows the effect of the whole change, not only of this step."""

    def show(_: object = None) -> dict[str, Any]:
        return _change(number)

    def effect() -> Effect:
        return effect_of(Change.objects.get(pk=number), is_written=True)

    return changed(request, Edit(call, who, show, show, effect, impact))


def _approved(number: int, *, author: str, reason: str) -> Change:
    return change_approve(change=number, approver=author, reason=reason).change


def _seen_whole(request: Request, fields: Fields) -> Fields:
    """A dry run tells what has to be accepted; refusing it would hide that."""
    if not query(ChangeQuery, request)["dry_run"]:
        return fields
    fields.pop("cuts", None)
    return fields | {"force": True, "accept": [ANYBODY]}


def _permits(fields: Fields) -> Fields:
    """Fields that were sent as null are left to the service's default."""
    return {name: value for name, value in fields.items() if value is not None}


def _spared_by(number: int) -> list[str]:
    return get_object_or_404(Change, pk=number).grandfather


def _change(number: int) -> dict[str, Any]:
    approvals = Prefetch("approvals", Approval.objects.order_by("id"))
    return WholeChangeOut(get_object_or_404(Change.objects.prefetch_related(approvals), pk=number)).data
