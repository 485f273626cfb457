from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db.models import F, QuerySet
from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api import preconditions
from api.edits import ChangeQuery, Edit, Guarded, Permitted, changed, permitted
from api.inputs import Flag, Query, body, query
from api.openapi.describe import (
    DryRunOut,
    ImpactOut,
    ObjectDiffOut,
    TouchedTenantsOut,
    changes,
    lists,
    reads,
)
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from headroom_edge.algorithms.base import SECOND_US
from quotas.changes.queries import difference_between
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.changes.undo_preview import MOST_JUDGED, Undone
from quotas.models import Revision
from quotas.models.revision import newest_revision_number
from quotas.policies.diff import ObjectDiff, differences

MOST_TOUCHED = 20
MOST_CHANGES = 1_000
UNJUDGED = "null: over 500 objects were touched; it is found out when it is done, and cuts are refused without `force`."


class RevisionOut(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    author = serializers.CharField()
    reason = serializers.CharField()
    action = serializers.CharField()
    created = serializers.DateTimeField()
    published = serializers.SerializerMethodField(help_text="When it was first enforced. null: not yet.")
    touched = serializers.ListField(
        child=serializers.CharField(), source="first_touched", help_text="The first 20 objects."
    )
    touched_count = serializers.IntegerField()

    def get_published(self, row: Revision) -> datetime | None:
        return datetime.fromtimestamp(row.published_us / SECOND_US, UTC) if row.published_us else None


class RevisionWithChangesOut(RevisionOut):
    changes = ObjectDiffOut(many=True, help_text="The first 1,000 objects.")


class UndoDryRunOut(DryRunOut):
    """What it would undo. Nothing was changed."""

    changes = ObjectDiffOut(
        many=True,
        help_text="If the undone revisions touched over 500 objects: of the first 500 tiers, endpoints, policies and "
        "tenants of them.",
    )
    tenants = TouchedTenantsOut(allow_null=True, help_text=UNJUDGED)
    impact = ImpactOut(allow_null=True, help_text=UNJUDGED)
    needs_force = serializers.BooleanField(allow_null=True, help_text=UNJUDGED)


class DifferenceOut(serializers.Serializer[Any]):
    """The combined changes of later revisions, which a rollback would undo."""

    since = serializers.IntegerField()
    until = serializers.IntegerField()
    changes = ObjectDiffOut(many=True, help_text="The first 1,000 objects.")


class DifferenceQuery(Query):
    until = serializers.IntegerField(required=False, min_value=1, max_value=10**18, help_text="Default: the newest.")


class RevisionQuery(PageQuery):
    author = serializers.CharField(required=False, max_length=150)
    action = serializers.CharField(required=False, max_length=40)
    object = serializers.CharField(
        required=False, max_length=140, help_text="An object that the revision touched, such as `policy:pro-all`."
    )
    order = order_field("number", default="-number")
    search = search_field("the reason")

    orders = {"number": "number"}
    lookups = {"author": "author", "action": "action", "object": "touched__contains"}
    searched = ("reason",)


class RevisionList(APIView):
    @lists(RevisionQuery, RevisionOut)
    def get(self, request: Request) -> Response:
        """Revisions, newest first: what was changed, by whom and why."""
        return listed(request, RevisionQuery, _rows(), RevisionOut)


class RevisionDetail(APIView):
    @reads(RevisionWithChangesOut)
    def get(self, request: Request, number: int) -> Response:
        """One revision, with its changes."""
        return shown(request, _revision(number))


class RevisionDiff(APIView):
    @reads(DifferenceOut, DifferenceQuery)
    def get(self, request: Request, number: int) -> Response:
        """What has changed since this revision, up to the revision `until` or the newest."""
        get_object_or_404(_rows(), number=number)
        newest = newest_revision_number()
        until = min(query(DifferenceQuery, request).get("until", newest), newest)
        return shown(
            request,
            {"since": number, "until": until, "changes": _listed(difference_between(since=number, until=until))},
        )


class Undo(Guarded):
    reopen_trials = Flag(default=False, help_text="Changes that were on trial before, and are over, go on trial again.")


class RevisionRollback(APIView):
    @changes(Undo, RevisionWithChangesOut, dry=UndoDryRunOut)
    def post(self, request: Request, number: int) -> Response:
        """Restores the configuration of this revision. API keys, tenants' tiers, suspensions and new tenants stay."""
        fields = body(Undo, request)
        who = permitted(request, fields)
        undo = partial(revision_rollback, **fields)
        return _preview(request, number, Undone.by_rollback) or _go_back(request, number, undo, who)


class RevisionRevert(APIView):
    @changes(Undo, RevisionWithChangesOut, dry=UndoDryRunOut)
    def post(self, request: Request, number: int) -> Response:
        """Undoes this one revision. Refused if an object that it touched has changed since."""
        fields = body(Undo, request)
        who = permitted(request, fields)
        undo = partial(revision_revert, **fields)
        return _preview(request, number, Undone.by_revert) or _go_back(request, number, undo, who)


def _preview(request: Request, number: int, undoes: Callable[[int], Undone]) -> Response | None:
    """The dry run of an undo of many objects: judging them would take this process seconds. None: they are few."""
    if not query(ChangeQuery, request)["dry_run"]:
        return None
    get_object_or_404(_rows(), number=number)
    undone = undoes(number)
    if undone.touched <= MOST_JUDGED:
        return None
    if preconditions.is_conditional(request):
        preconditions.check(request, _revision(number))
    found = [asdict(change) for change in undone.preview().changes]
    return Response({"dry_run": True, "changes": found, "tenants": None, "impact": None, "needs_force": None})


def _go_back(request: Request, number: int, call: Callable[..., Revision | None], who: Permitted) -> Response:
    """Responds with the new revision, or with the requested one if there was nothing to change."""

    def show(revision: Revision | None) -> dict[str, Any]:
        return _revision(revision.number if revision else number)

    edit = Edit(partial(call, number=number), who, show, lambda: _revision(number), is_large=True)
    return changed(request, edit)


def _rows() -> QuerySet[Revision, Revision]:
    """A revision may have touched 100,000 objects, so only the first few are read."""
    few = {"first_touched": F("touched")[0:MOST_TOUCHED], "touched_count": F("touched__len")}
    return Revision.objects.defer("before", "after", "touched").annotate(**few)


def _revision(number: int) -> dict[str, Any]:
    row = get_object_or_404(_rows(), number=number)
    found = Revision.objects.only("before", "after").get(number=number)
    return {**RevisionOut(row).data, "changes": _listed(differences(found.before, found.after))}


def _listed(changes: tuple[ObjectDiff, ...]) -> list[dict[str, Any]]:
    return [asdict(change) for change in changes[:MOST_CHANGES]]
