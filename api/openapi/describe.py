"""What a route says of itself in the OpenAPI document. Refusals are the same everywhere, so they stand here once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from http import HTTPStatus
from typing import Any, TypeVar, cast

from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_field,
    inline_serializer,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from api.changes import REVISION, ChangeQuery, Guarded, GuardedRemovalQuery, RemovalQuery
from api.idempotency import HEADER, LONGEST, PATTERN
from api.inputs import Query, Strict, query
from api.pagination import PageQuery
from headroom_edge.problems import CONTENT_TYPE

View = TypeVar("View", bound=Callable[..., Any])
Shape = type[serializers.Serializer[Any]]


class FieldProblem(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="Where: `limits[0].rate`; empty: the whole.")
    code = serializers.CharField()
    detail = serializers.CharField()
    line = serializers.IntegerField(required=False, help_text="Of the document.")


class ProblemOut(serializers.Serializer[Any]):
    """RFC 9457. `code` is stable; `detail` is one sentence that says what to change."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField()
    field = serializers.CharField(required=False)
    errors = FieldProblem(many=True, required=False)  # type: ignore[assignment]


@extend_schema_field({"description": "Any JSON; null: it is not there."})
class AnythingField(serializers.JSONField):
    pass


class FieldDiffOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    before = AnythingField()
    after = AnythingField()


class ObjectDiffOut(serializers.Serializer[Any]):
    object = serializers.CharField(help_text="kind:name, such as `policy:pro-all`")
    action = serializers.ChoiceField(choices=["create", "update", "delete"])
    fields = FieldDiffOut(many=True)  # type: ignore[assignment]


class TouchedTenantsOut(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    names = serializers.ListField(child=serializers.CharField(), help_text="The first 100.")
    is_everyone = serializers.BooleanField()


class WaitingOut(serializers.Serializer[Any]):
    """Filed as a change, at the address that Location has."""

    change = serializers.IntegerField()


class CutOut(serializers.Serializer[Any]):
    owner = serializers.CharField(help_text="`tier pro` (its tenants), `tenant acme`, `everyone`")
    endpoint = serializers.CharField()
    limit = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    percent = serializers.FloatField()
    peak = serializers.CharField(required=False, help_text="Who has asked for more than is left; empty: nobody.")


class WorstCutOut(serializers.Serializer[Any]):
    endpoint = serializers.CharField()
    limit = serializers.CharField()
    percent = serializers.FloatField(help_text="Of whoever loses most.")


class ImpactOut(serializers.Serializer[Any]):
    """Whom it takes more than a tenth from, or more than they can spare; the lists have the first 100."""

    cuts = CutOut(many=True)
    cut_count = serializers.IntegerField()
    worst = WorstCutOut(many=True)
    hurt = serializers.ListField(child=serializers.CharField(), help_text="Tenants.")
    hurt_count = serializers.IntegerField()


class DryRunOut(serializers.Serializer[Any]):
    """What a change would do; nothing was changed."""

    dry_run = serializers.BooleanField()
    changes = ObjectDiffOut(many=True)
    tenants = TouchedTenantsOut()
    impact = ImpactOut()
    needs_force = serializers.BooleanField()


_MEANINGS = {
    400: "The request cannot be read; `errors` says where.",
    401: "Nobody is logged in, and there is no token.",
    403: "The role does not allow it.",
    404: "There is no such thing.",
    406: "Only JSON is served here.",
    409: "What is there now does not allow it.",
    412: "It was changed since the ETag was read.",
    413: "The body is too large.",
    415: "Only JSON is read here.",
    422: "It can be read, but not be accepted; `errors` says why.",
    428: "If-Match is missing.",
    429: "The API's own limit is used up; Retry-After says until when.",
    503: "A server that this needs cannot be reached.",
}
READING = (400, 401, 403, 404, 406, 429, 503)
_ASKING = (*READING, 409, 413, 415, 422)
_CHANGING = (*_ASKING, 412)

IF_MATCH = OpenApiParameter(
    "If-Match", str, "header", required=True, description="The ETag that was read, or `*` for whatever is there."
)
MAYBE_MATCH = OpenApiParameter("If-Match", str, "header", description="Only if this is still its ETag.")
IDEMPOTENCY = OpenApiParameter(
    HEADER,
    {"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": f"^{PATTERN}+$"},
    "header",
    description="The same key with the same request within 24 hours gives the same answer and creates nothing.",
)
REVISION_HEADER = OpenApiParameter(
    REVISION, int, "header", response=True, description="The revision that this has become."
)
ETAG_HEADER = OpenApiParameter("ETag", str, "header", response=True, description="For If-Match.")


def described(
    asked: type[Query] = Query, *, parameters: Sequence[OpenApiParameter] = (), **schema: Any
) -> Callable[[View], View]:
    """In the document; and with a query that the route does not take, nothing is done."""
    taken = [asked] if asked is not Query else []

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(self: APIView, request: Request, *args: Any, **kwargs: Any) -> Any:
            query(asked, request)
            return view(self, request, *args, **kwargs)

        return cast("View", extend_schema(parameters=[*taken, *parameters], **schema)(checked))

    return decorate


def lists(asked: type[PageQuery], shape: Shape, **more: Any) -> Callable[[View], View]:
    page = inline_serializer(
        f"{_name(shape)}Page",
        {
            "items": shape(many=True),
            "next": serializers.CharField(allow_null=True, help_text="The cursor of the next page; null: the last."),
        },
    )
    return described(asked, responses={200: page, **problems(READING)}, **more)


def reads(shape: Any, asked: type[Query] = Query, **more: Any) -> Callable[[View], View]:
    return described(asked, parameters=[ETAG_HEADER], responses={200: shape, **problems(READING)}, **more)


def asks(request: type[Strict], shape: Shape, **more: Any) -> Callable[[View], View]:
    """A POST that changes nothing."""
    return described(request=request, responses={200: shape, **problems(_ASKING)}, **more)


def creates(request: type[Strict], shape: Shape, **more: Any) -> Callable[[View], View]:
    dry = OpenApiResponse(DryRunOut, "With `dry_run`.")
    responses = {201: shape, 200: dry, **_waiting(request), **problems(_CHANGING)}
    parameters = [IDEMPOTENCY, REVISION_HEADER, ETAG_HEADER]
    return described(ChangeQuery, request=request, parameters=parameters, responses=responses, **more)


def changes(request: type[Strict], shape: Shape, *, needs_match: bool = False, **more: Any) -> Callable[[View], View]:
    either = PolymorphicProxySerializer(f"{_name(shape)}OrDryRun", [shape, DryRunOut], None)
    refusals = problems((*_CHANGING, 428) if needs_match else _CHANGING)
    parameters = [IF_MATCH if needs_match else MAYBE_MATCH, REVISION_HEADER, ETAG_HEADER]
    responses = {200: either, **_waiting(request), **refusals}
    return described(ChangeQuery, request=request, parameters=parameters, responses=responses, **more)


def removes(
    asked: type[RemovalQuery] = RemovalQuery, *, needs_match: bool = True, **more: Any
) -> Callable[[View], View]:
    responses = {
        204: OpenApiResponse(description="It is gone."),
        200: OpenApiResponse(DryRunOut, "With `dry_run`."),
        **_waiting(asked),
        **problems((*_CHANGING, 428) if needs_match else _CHANGING),
    }
    parameters = [*([IF_MATCH] if needs_match else []), REVISION_HEADER]
    return described(asked, request=None, parameters=parameters, responses=responses, **more)


def _waiting(asked: type[Strict | Query]) -> dict[int, OpenApiResponse]:
    if not issubclass(asked, Guarded | GuardedRemovalQuery):
        return {}
    return {202: OpenApiResponse(WaitingOut, "Proposed, or waiting for an approver; nothing has changed.")}


def problems(statuses: Iterable[int]) -> dict[Any, OpenApiResponse]:
    return {
        (status, CONTENT_TYPE): OpenApiResponse(ProblemOut, _MEANINGS[status])
        for status in sorted(statuses, key=HTTPStatus)
    }


def _name(shape: Shape) -> str:
    return shape.__name__.removesuffix("Out")
