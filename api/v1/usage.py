"""What was asked for, allowed and denied: any span, in any grouping; and single denials."""

from __future__ import annotations

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
from api.openapi.describe import reads
from api.v1.tenants import tenant_shown
from quotas.usage.queries import grouped_usage
from quotas.usage.queries.denials import REASONS, DenialFilter, denials_read
from quotas.usage.queries.grouped_usage import GROUPINGS, MOST_ROWS, OUTCOMES, UsageResult, UsageRow

FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)  # before anything was counted
MOST_STEPS: Final = 5_000
MOST_NAMES: Final = 100
LONGEST_NAMES: Final = 8_000
USUAL_SPAN: Final = timedelta(days=1)
STEP: Final = r"^[1-9][0-9]{0,4}(s|m|h|d)$"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
FINEST_S: Final = 10


class NamesField(serializers.CharField):
    """Several, with commas between."""

    def __init__(self, what: str, choices: tuple[str, ...] = ()) -> None:
        self.allowed = choices
        help_text = f"{what}, with commas between; left out: all."
        super().__init__(required=False, help_text=help_text)

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        if len(text) > LONGEST_NAMES:  # here, because validators see the names, not the text
            raise ValidationError(f"has {len(text):,} characters; {LONGEST_NAMES:,} are the most")
        names = tuple(dict.fromkeys(name for name in text.split(",") if name))
        if len(names) > MOST_NAMES:
            raise ValidationError(f"names {len(names)}; ask for at most {MOST_NAMES} at once")
        if self.allowed and (unknown := [name for name in names if name not in self.allowed]):
            raise ValidationError(f"has {unknown[0]!r}; choose from {', '.join(self.allowed)}")
        return names


class UsageQuery(Query):
    begin = Moment(required=False, help_text="Left out: a day before the end.")
    end = Moment(required=False, help_text="Left out: now.")
    step = serializers.RegexField(
        STEP, required=False, help_text="One row per so much time, like 10s, 5m, 1h or 1d; left out: the whole span."
    )
    group = NamesField("What to count apart", GROUPINGS)
    tenant = NamesField("Tenants")
    tier = NamesField("Tiers")
    endpoint = NamesField("Endpoints")
    limit = NamesField("Limits that denied")
    outcome = NamesField("Outcomes", tuple(OUTCOMES))
    most = serializers.IntegerField(min_value=1, max_value=MOST_ROWS, default=1_000, help_text="How many rows at most.")


class UsageRowOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField(allow_null=True, help_text="Of the step; null: the whole span.")
    tenant = serializers.CharField(required=False, help_text="Empty: unknown, or gone.")
    tier = serializers.CharField(required=False)
    endpoint = serializers.CharField(required=False, help_text="Empty: not registered, or gone.")
    outcome = serializers.CharField(required=False)
    limit = serializers.CharField(required=False, help_text="Empty: no limit denied it.")
    allowed = serializers.IntegerField(help_text="Requests.")
    denied = serializers.IntegerField()
    allowed_cost = serializers.IntegerField()
    denied_cost = serializers.IntegerField()
    count = serializers.IntegerField(
        help_text="With what is counted beside requests: what shadow limits and candidates would have done."
    )


class GapOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    reason = serializers.CharField()


class UsageOut(serializers.Serializer[Any]):
    begin = serializers.DateTimeField(help_text="As far as the span was widened to whole steps.")
    end = serializers.DateTimeField()
    since = serializers.DateTimeField(help_text="Nothing is known of the time before.")
    until = serializers.DateTimeField(help_text="Nothing is known yet of the time after.")
    gaps = GapOut(many=True, help_text="Where counts may be missing: no row does not mean zero there.")
    rows = UsageRowOut(many=True, help_text="By time; of one time the largest first.")
    is_whole = serializers.BooleanField(help_text="False: there are more rows than `most`.")


class Usage(APIView):
    @reads(UsageOut, UsageQuery)
    def get(self, request: Request) -> Response:
        """How many requests of which cost were allowed and denied; a tenant's user sees the own tenant's only."""
        asked = query(UsageQuery, request)
        now = timezone.now()
        end = asked.get("end", now)
        begin = asked.get("begin", end - USUAL_SPAN)
        step = _step(asked.get("step"))
        _check_span(begin, end, step)
        answer = grouped_usage.usage_query(
            grouped_usage.UsageQuery(
                begin,
                end,
                step,
                asked.get("group", ()),
                tenants=_own_tenants(request, asked),
                tiers=asked.get("tier", ()),
                endpoints=asked.get("endpoint", ()),
                limits=asked.get("limit", ()),
                outcomes=asked.get("outcome", ()),
                most=asked["most"],
            ),
            now,
        )
        return Response(UsageOut(_usage(answer)).data)


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
    seconds = int(text[:-1]) * _SECONDS[text[-1]]
    if seconds % FINEST_S:
        raise ValidationError({"step": [f"is {text}; take a multiple of {FINEST_S} s, which is the finest there is"]})
    return timedelta(seconds=seconds)


def _check_span(begin: datetime, end: datetime, step: timedelta | None) -> None:
    if begin >= end:
        raise ValidationError({"begin": ["has to lie before the end"]})
    if step is not None and (end - begin) / step > MOST_STEPS:
        raise ValidationError({"step": [f"gives more than {MOST_STEPS:,} steps; take longer ones, or a shorter span"]})


def _usage(answer: UsageResult) -> Mapping[str, Any]:
    measured = answer.measured
    return {
        "begin": answer.begin,
        "end": answer.end,
        "since": measured.since,
        "until": max(measured.until, FIRST),
        "gaps": measured.gaps,
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
    before = Moment(required=False, help_text="`next` of the page before.")
    most = serializers.IntegerField(
        min_value=1, max_value=200, default=50, help_text="How many at most, and all of the last microsecond."
    )


class DenialOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    tenant = serializers.CharField(help_text="Empty: unknown, or gone.")
    endpoint = serializers.CharField(help_text="Empty: not registered, or gone.")
    limit = serializers.CharField(help_text="Empty: none denied it.")
    reason = serializers.CharField()
    cost = serializers.IntegerField()
    retry_us = serializers.IntegerField(help_text="When it would have fitted, in microseconds; -1: never.")
    revision = serializers.IntegerField(help_text="Of the configuration that denied it.")
    subject = serializers.CharField(help_text="The start of a keyed hash; empty: the tenant as a whole.")
    words = serializers.CharField(help_text="Why, and what would help.")


class DenialsOut(serializers.Serializer[Any]):
    items = DenialOut(many=True, help_text="Newest first; a sample, which no storm of denials can blow up.")
    next = serializers.DateTimeField(allow_null=True, help_text="`before` of the next page; null: the last.")
    is_searched = serializers.BooleanField(help_text="Only the newest were looked through for what was asked.")


class Denials(APIView):
    @reads(DenialsOut, DenialsQuery)
    def get(self, request: Request) -> Response:
        """Single denials, newest first; a tenant's user sees the own tenant's only."""
        asked = query(DenialsQuery, request)
        name = asked.get("tenant", "")
        own = principal_of(request).tenant
        if own is not None:
            if name:
                tenant_shown(request, name)
            name = own.name
        wanted = DenialFilter(name, asked.get("endpoint", ""), asked.get("limit", ""), asked.get("reason", ""))
        page = denials_read(wanted, before=asked.get("before"), most=asked["most"])
        last = None if page.is_whole else page.denials[-1].at
        answer = {"items": page.denials, "next": last, "is_searched": page.is_searched}
        return Response(DenialsOut(answer).data)
