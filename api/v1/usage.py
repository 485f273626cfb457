"""Usage over any period and in any grouping, and single denials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.utils import timezone
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.authentication import principal_of
from api.inputs import Fields, Moment, Query, query
from api.openapi import patterns
from api.openapi.describe import reads
from api.v1.shapes import tenant_shown
from quotas.errors import refuse
from quotas.usage.queries import grouped_usage
from quotas.usage.queries.denial_counts import denials_counted
from quotas.usage.queries.denial_log import CAUSES, REASONS, DenialFilter, denials_read
from quotas.usage.queries.grouped_usage import GROUPINGS, MOST_ROWS, OUTCOMES, UsageResult, UsageRow

FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)  # before anything was counted
MOST_STEPS: Final = 5_000
MOST_NAMES: Final = 100
LONGEST_NAMES: Final = 8_000
USUAL_SPAN: Final = timedelta(days=1)
STEP: Final = r"^([1-9][0-9]{0,3}0s|[1-9][0-9]{0,4}(m|h|d))$"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class NamesField(serializers.CharField):
    """Several names, separated by commas."""

    def __init__(self, what: str, choices: tuple[str, ...] = ()) -> None:
        self.allowed = choices
        self.stated = {"pattern": patterns.names(choices), "maxLength": LONGEST_NAMES}
        help_text = f"{what}, separated by commas, at most {MOST_NAMES}. Default: all."
        super().__init__(required=False, help_text=help_text, trim_whitespace=False)

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        if len(text) > LONGEST_NAMES:  # checked here, because validators see the names, not the text
            raise ValidationError(f"has {len(text):,} characters; send at most {LONGEST_NAMES:,}")
        names = tuple(dict.fromkeys(text.split(",")))
        if odd := [name for name in names if not re.fullmatch(patterns.ANY_NAME, name)]:
            advice = "send names without white space and control characters, with one comma between two"
            raise ValidationError(f"has {odd[0][:40]!r}; {advice}")
        if len(names) > MOST_NAMES:
            raise refuse(
                str(self.field_name), "too_many", f"{self.field_name} has {len(names)} names; send at most {MOST_NAMES}"
            )
        if self.allowed and (unknown := [name for name in names if name not in self.allowed]):
            raise ValidationError(f"has {unknown[0]!r}; choose from {', '.join(self.allowed)}")
        return names


class UsageQuery(Query):
    begin = Moment(required=False, help_text="Default: one day before the end.")
    end = Moment(required=False, help_text="Default: now.")
    step = serializers.RegexField(
        STEP,
        required=False,
        error_messages={"invalid": "must be a multiple of 10s, such as 10s, 5m, 1h or 1d"},
        help_text="The time per row, such as 10s, 5m, 1h or 1d. Default: the whole period.",
    )
    group = NamesField("What to group by", GROUPINGS)
    tenant = NamesField("Tenants")
    tier = NamesField("Tiers")
    endpoint = NamesField("Endpoints")
    limit = NamesField("Limits that denied")
    outcome = NamesField("Outcomes", tuple(OUTCOMES))
    most = serializers.IntegerField(
        min_value=1, max_value=MOST_ROWS, default=1_000, help_text="The maximum number of rows."
    )


class UsageRowOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField(allow_null=True, help_text="The start of the step. null: the whole period.")
    tenant = serializers.CharField(required=False, help_text="Empty: unknown or deleted.")
    tier = serializers.CharField(required=False)
    endpoint = serializers.CharField(required=False, help_text="Empty: not registered or deleted.")
    outcome = serializers.CharField(required=False)
    limit = serializers.CharField(required=False, help_text="Empty: no limit denied it.")
    allowed = serializers.IntegerField(help_text="The number of allowed requests.")
    denied = serializers.IntegerField()
    allowed_cost = serializers.IntegerField()
    denied_cost = serializers.IntegerField()
    count = serializers.IntegerField(
        help_text="All counted outcomes, including what shadow limits and candidates would have done."
    )


class GapOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    reason = serializers.CharField()


class UsageOut(serializers.Serializer[Any]):
    begin = serializers.DateTimeField(help_text="The start of the period, rounded down to a whole step.")
    end = serializers.DateTimeField()
    since = serializers.DateTimeField(help_text="There is no data before this time.")
    until = serializers.DateTimeField(help_text="There is no data after this time yet.")
    gaps = GapOut(many=True, help_text="Periods in which counts may be missing, so that a missing row is not zero.")
    rows = UsageRowOut(many=True, help_text="Ordered by time, then by size, the largest first.")
    is_whole = serializers.BooleanField(help_text="False: there are more rows than `most`.")


class Usage(APIView):
    @reads(UsageOut, UsageQuery)
    def get(self, request: Request) -> Response:
        """The number and cost of allowed and denied requests. A tenant's user only sees that tenant's usage."""
        asked = query(UsageQuery, request)
        now = timezone.now()
        end = asked.get("end", now)
        begin = asked.get("begin", end - USUAL_SPAN)
        step = _step(asked.get("step"))
        _check_span(begin, end, step)
        tenants = _own_tenants(request, asked)
        answer = grouped_usage.usage_query(
            grouped_usage.UsageQuery(
                begin,
                end,
                step,
                asked.get("group", ()),
                tenants=tenants,
                tiers=asked.get("tier", ()),
                endpoints=asked.get("endpoint", ()),
                limits=asked.get("limit", ()),
                outcomes=asked.get("outcome", ()),
                most=asked["most"],
            ),
            now,
        )
        return Response(UsageOut(_usage(answer, is_of_one=len(tenants) == 1)).data)


def _own_tenants(request: Request, asked: Fields) -> tuple[str, ...]:
    names: tuple[str, ...] = asked.get("tenant", ())
    own = principal_of(request).tenant
    if own is None:
        return names
    for name in names:
        tenant_shown(request, name)
    return (own.name,)


def _step(text: str | None) -> timedelta | None:
    if text is None:
        return None
    return timedelta(seconds=int(text[:-1]) * _SECONDS[text[-1]])


def _check_span(begin: datetime, end: datetime, step: timedelta | None) -> None:
    if begin >= end:
        raise refuse("begin", "order", "begin must be before the end; move one of them")
    if step is not None and (end - begin) / step > MOST_STEPS:
        message = f"step gives more than {MOST_STEPS:,} rows; use a longer step or a shorter period"
        raise refuse("step", "too_many", message)


def _usage(answer: UsageResult, *, is_of_one: bool) -> Mapping[str, Any]:
    measured = answer.measured
    # One tenant is in one shard, so a gap concerns it wholly or not at all.
    gaps = [
        {"start": gap.start, "end": gap.end, "reason": gap.reason if is_of_one else gap.words} for gap in measured.gaps
    ]
    return {
        "begin": answer.begin,
        "end": answer.end,
        "since": measured.since,
        "until": max(measured.until, FIRST),
        "gaps": gaps,
        "rows": [_row(row) for row in answer.rows],
        "is_whole": answer.is_whole,
    }


def _row(row: UsageRow) -> Mapping[str, Any]:
    sums = ("start", "allowed", "denied", "allowed_cost", "denied_cost", "count")
    return {**row.group, **{name: getattr(row, name) for name in sums}}


class DenialsQuery(Query):
    tenant = serializers.CharField(required=False, max_length=63)
    endpoint = serializers.CharField(required=False, max_length=128)
    limit = serializers.CharField(required=False, max_length=128, help_text="The limit that denied.")
    reason = serializers.ChoiceField(choices=list(REASONS), required=False)
    cause = serializers.ChoiceField(
        choices=list(CAUSES), required=False, help_text="Why a limit that borrows denied. Causes are not `counted`."
    )
    tier = serializers.CharField(required=False, max_length=63, help_text="The tier that the tenant is on now.")
    since = Moment(required=False, help_text="Only denials from this time on. With it, the answer has `counted`.")
    until = Moment(required=False, help_text="Only denials before this time.")
    before = Moment(required=False, help_text="`next` of the previous page.")
    most = serializers.IntegerField(
        min_value=1,
        max_value=200,
        default=50,
        help_text="Page size. A page may be longer if several denials share the last time.",
    )


class DenialOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    tenant = serializers.CharField(help_text="Empty: unknown or deleted.")
    endpoint = serializers.CharField(help_text="Empty: not registered or deleted.")
    limit = serializers.CharField(help_text="Empty: no limit denied it.")
    reason = serializers.CharField()
    cause = serializers.CharField(
        help_text="Of a limit that borrows: `pool` (it was full), `share` (its fair part of the loans was used) or "
        "`ceiling`. Empty otherwise."
    )
    cost = serializers.IntegerField()
    retry_us = serializers.IntegerField(help_text="Microseconds until it would have been allowed. -1: never.")
    revision = serializers.IntegerField(help_text="The revision that denied it.")
    subject = serializers.CharField(help_text="The start of a keyed hash. Empty: the tenant as a whole.")
    words = serializers.CharField(help_text="Why it was denied, and what would help.")


class DenialCountOut(serializers.Serializer[Any]):
    denied = serializers.IntegerField(help_text="All requests that match, counted exactly.")
    unlisted = serializers.IntegerField(help_text="Of them, refused before a limit was checked: never listed.")
    kept_since = serializers.DateTimeField(
        allow_null=True, help_text="Earlier ones are counted, but no longer listed. null: all of the time is kept."
    )


class DenialsOut(serializers.Serializer[Any]):
    items = DenialOut(many=True, help_text="Newest first. A sample: not every denial is kept.")
    next = serializers.DateTimeField(
        allow_null=True, help_text="`before` of the next page. null: this is the last one."
    )
    is_searched = serializers.BooleanField(help_text="True: only the newest denials were searched for matches.")
    counted = DenialCountOut(allow_null=True, help_text="What the items are a sample of. null: `since` is not given.")


class Denials(APIView):
    @reads(DenialsOut, DenialsQuery)
    def get(self, request: Request) -> Response:
        """Single denials, newest first. A tenant's user only sees that tenant's denials."""
        asked = query(DenialsQuery, request)
        name = asked.get("tenant", "")
        own = principal_of(request).tenant
        if own is not None:
            if name:
                tenant_shown(request, name)
            name = own.name
        named = {field: asked.get(field, "") for field in ("endpoint", "limit", "reason", "cause", "tier")}
        wanted = DenialFilter(tenant=name, since=asked.get("since"), until=asked.get("until"), **named)
        page = denials_read(wanted, before=asked.get("before"), most=asked["most"])
        last = None if page.is_whole else page.denials[-1].at
        counted = denials_counted(wanted, timezone.now())
        answer = {"items": page.denials, "next": last, "is_searched": page.is_searched, "counted": counted}
        return Response(DenialsOut(answer).data)
