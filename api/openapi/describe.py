"""Decorators that describe a route in the OpenAPI document. Error responses are the same for all routes."""

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

from api.edits import REVISION, ChangeQuery, Guarded, GuardedRemovalQuery, RemovalQuery
from api.idempotency import HEADER, LONGEST, PATTERN
from api.inputs import Query, Strict, query
from api.pagination import PageQuery
from headroom_edge.problems import CONTENT_TYPE

View = TypeVar("View", bound=Callable[..., Any])
Shape = type[serializers.Serializer[Any]]


class FieldProblem(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="The field's path, such as `limits[0].rate`. Empty: the whole request.")
    code = serializers.CharField()
    detail = serializers.CharField()
    line = serializers.IntegerField(required=False, help_text="The line in the policy document.")


class ProblemOut(serializers.Serializer[Any]):
    """A problem (RFC 9457). `code` is stable; `detail` is one sentence that says what to change."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField()
    field = serializers.CharField(required=False)
    errors = FieldProblem(many=True, required=False)  # type: ignore[assignment]


@extend_schema_field({"description": "Any JSON value. null: it does not exist."})
class AnythingField(serializers.JSONField):
    pass


class FieldDiffOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    before = AnythingField()
    after = AnythingField()


class ObjectDiffOut(serializers.Serializer[Any]):
    object = serializers.CharField(help_text="`kind:name`, such as `policy:pro-all`.")
    action = serializers.ChoiceField(choices=["create", "update", "delete"])
    fields = FieldDiffOut(many=True)  # type: ignore[assignment]


class TouchedTenantsOut(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    names = serializers.ListField(child=serializers.CharField(), help_text="The first 100 names.")
    is_everyone = serializers.BooleanField()


class WaitingOut(serializers.Serializer[Any]):
    """Saved as a pending change. Its address is in `Location`."""

    change = serializers.IntegerField()


class CutOut(serializers.Serializer[Any]):
    owner = serializers.CharField(help_text="Whose limit: `tier pro` (its tenants), `tenant acme` or `everyone`.")
    endpoint = serializers.CharField()
    limit = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    percent = serializers.FloatField()
    peak = serializers.CharField(
        required=False, help_text="Whose observed peak is above the new limit. Empty: nobody's."
    )


class WorstCutOut(serializers.Serializer[Any]):
    endpoint = serializers.CharField()
    limit = serializers.CharField()
    percent = serializers.FloatField(help_text="The largest cut, in percent of the limit.")


class TenantBelowOut(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    endpoint = serializers.CharField()
    limit = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    unit = serializers.CharField()
    window_s = serializers.IntegerField(help_text="The length of the window in which it asked for `peak`, in seconds.")
    peak = serializers.IntegerField()
    left = serializers.FloatField(help_text="How much of that would pass.")


class LostEnforcementOut(serializers.Serializer[Any]):
    owner = serializers.CharField()
    endpoint = serializers.CharField()
    limit = serializers.CharField()
    before = serializers.CharField()
    mode = serializers.ChoiceField(choices=["shadow", "off"])
    tenants = serializers.IntegerField(help_text="For how many tenants it is no longer enforced.")


class LoweredPriorityOut(serializers.Serializer[Any]):
    owner = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    endpoints = serializers.ListField(child=serializers.CharField(), help_text="The first 100; `*`: not registered.")
    endpoint_count = serializers.IntegerField()
    tenants = serializers.IntegerField()


class ImpactOut(serializers.Serializer[Any]):
    """Limits that the change cuts by more than 10 %, or below an observed peak. Lists have the first 100 entries."""

    cuts = CutOut(many=True)
    cut_count = serializers.IntegerField()
    worst = WorstCutOut(many=True)
    hurt = serializers.ListField(child=serializers.CharField(), help_text="Tenants whose limits are cut.")
    hurt_count = serializers.IntegerField()
    below = TenantBelowOut(many=True, help_text="Tenants left with less than they asked for in the last 28 days.")
    below_count = serializers.IntegerField()
    unenforced = LostEnforcementOut(many=True, help_text="Limits that stay, but are no longer enforced.")
    lowered = LoweredPriorityOut(
        many=True, required=False, help_text="Requests that a full pool will refuse sooner. This needs no force."
    )


class DryRunOut(serializers.Serializer[Any]):
    """What the change would do. Nothing was changed."""

    dry_run = serializers.BooleanField()
    changes = ObjectDiffOut(many=True)
    tenants = TouchedTenantsOut()
    impact = ImpactOut()
    needs_force = serializers.BooleanField()
    warnings = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Of policies, pools and members: what pools could not keep.",
    )


_MEANINGS = {
    400: "The request is malformed; `errors` has the fields.",
    401: "No token was sent, and nobody is signed in.",
    403: "The role or the token's scopes do not allow this.",
    404: "Not found.",
    406: "Only JSON is available.",
    408: "The request did not arrive within 10 s.",
    409: "The change conflicts with the current state.",
    412: "It has changed since the ETag was read.",
    413: "The body is too large.",
    415: "The body must be JSON.",
    422: "The request is well-formed but not valid; `errors` has the reasons.",
    423: "The configuration is frozen; `until`, `reason` and `may_pass` say more.",
    428: "If-Match is missing.",
    429: "The API's own limit is used up; `Retry-After` has the time to wait.",
    431: "There are more than 16 KiB or 100 fields before the body.",
    503: "PostgreSQL or Redis cannot be reached, or this server is busy; `Retry-After` has the time to wait.",
}
READING = (400, 401, 403, 404, 406, 408, 429, 431, 503)
SEARCHING = (*READING, 422)
_ASKING = (*READING, 409, 413, 415, 422)
_CHANGING = (*_ASKING, 412, 423)

IF_MATCH = OpenApiParameter(
    "If-Match", str, "header", required=True, description="The ETag that you read, or `*` to overwrite any version."
)
MAYBE_MATCH = OpenApiParameter("If-Match", str, "header", description="Change it only if it still has this ETag.")
IDEMPOTENCY = OpenApiParameter(
    HEADER,
    {"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": f"^{PATTERN}+$"},
    "header",
    description="Repeating a request with the same key within 24 hours gives the same response and changes nothing.",
)
REVISION_HEADER = OpenApiParameter(
    REVISION, int, "header", response=True, description="The revision that the change created."
)
RETRY_HEADER = OpenApiParameter(
    "Retry-After", int, "header", response=[423, 429, 503], description="Seconds to wait before the next try."
)
LOCATION_HEADER = OpenApiParameter(
    "Location", str, "header", response=[202], description="The address of the task, or of the change."
)
_WAITING = "Proposed, or waiting for approval. Nothing has changed yet."
_FILED = "The document has over 500 entries or 65,536 characters, so a worker does it. `Location` has the task."
ETAG_HEADER = OpenApiParameter("ETag", str, "header", response=True, description="Send it as `If-Match`.")


def described(
    asked: type[Query] = Query, *, parameters: Sequence[OpenApiParameter] = (), **schema: Any
) -> Callable[[View], View]:
    """Describe the route, and validate the query before the view runs."""
    taken = [asked] if asked is not Query else []

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(self: APIView, request: Request, *args: Any, **kwargs: Any) -> Any:
            query(asked, request)
            return view(self, request, *args, **kwargs)

        return cast("View", extend_schema(parameters=[*taken, *parameters, RETRY_HEADER], **schema)(checked))

    return decorate


def lists(asked: type[PageQuery], shape: Shape, **more: Any) -> Callable[[View], View]:
    page = inline_serializer(
        f"{_name(shape)}Page",
        {
            "items": shape(many=True),
            "next": serializers.CharField(
                allow_null=True, help_text="The `cursor` of the next page. null: this is the last one."
            ),
        },
    )
    return described(asked, responses={200: page, **problems(SEARCHING)}, **more)


def reads(shape: Any, asked: type[Query] = Query, **more: Any) -> Callable[[View], View]:
    refusals = problems(READING if asked is Query else SEARCHING)
    return described(asked, parameters=[ETAG_HEADER], responses={200: shape, **refusals}, **more)


def asks(request: type[Strict], shape: Shape, *, large: Shape | None = None, **more: Any) -> Callable[[View], View]:
    """A POST that changes nothing. `large`: the task that it files if there is much to do."""
    filed = {} if large is None else {202: OpenApiResponse(large, _FILED)}
    parameters = [] if large is None else [IDEMPOTENCY, LOCATION_HEADER]
    responses = {200: shape, **filed, **problems(_ASKING)}
    return described(request=request, parameters=parameters, responses=responses, **more)


def creates(request: type[Strict], shape: Shape, **more: Any) -> Callable[[View], View]:
    dry = OpenApiResponse(DryRunOut, "With `dry_run`.")
    responses = {201: shape, 200: dry, **_waiting(request), **problems(_CHANGING)}
    parameters = [IDEMPOTENCY, REVISION_HEADER, ETAG_HEADER]
    return described(ChangeQuery, request=request, parameters=parameters, responses=responses, **more)


def changes(
    request: type[Strict],
    shape: Shape,
    *,
    needs_match: bool = False,
    large: Shape | None = None,
    dry: Shape = DryRunOut,
    **more: Any,
) -> Callable[[View], View]:
    """`large`: the task that it files if there is much to do. `dry`: what a dry run returns."""
    # Both names: an operation with another dry run of the same shape would otherwise take this one's description.
    either = PolymorphicProxySerializer(f"{_name(shape)}Or{_name(dry)}", [shape, dry], None)
    refusals = problems((*_CHANGING, 428) if needs_match else _CHANGING)
    conditions = [IF_MATCH] if needs_match else [MAYBE_MATCH, IDEMPOTENCY]  # PUT and PATCH need a match, POST does not
    parameters = [*conditions, REVISION_HEADER, ETAG_HEADER]
    responses = {200: either, **_waiting(request), **refusals}
    if large is not None:
        filed = PolymorphicProxySerializer(f"Waiting{_name(shape)}", [WaitingOut, large], None)
        responses[202] = OpenApiResponse(filed, f"{_WAITING} Or: {_FILED}")
        parameters.append(LOCATION_HEADER)
    return described(ChangeQuery, request=request, parameters=parameters, responses=responses, **more)


def removes(
    asked: type[RemovalQuery] = RemovalQuery, *, needs_match: bool = True, **more: Any
) -> Callable[[View], View]:
    responses = {
        204: OpenApiResponse(description="Deleted."),
        200: OpenApiResponse(DryRunOut, "With `dry_run`."),
        **_waiting(asked),
        **problems((*_CHANGING, 428) if needs_match else _CHANGING),
    }
    parameters = [*([IF_MATCH] if needs_match else []), REVISION_HEADER]
    return described(asked, request=None, parameters=parameters, responses=responses, **more)


def _waiting(asked: type[Strict | Query]) -> dict[int, OpenApiResponse]:
    if not issubclass(asked, Guarded | GuardedRemovalQuery):
        return {}
    return {202: OpenApiResponse(WaitingOut, _WAITING)}


def problems(statuses: Iterable[int]) -> dict[Any, OpenApiResponse]:
    return {
        (status, CONTENT_TYPE): OpenApiResponse(ProblemOut, _MEANINGS[status])
        for status in sorted(statuses, key=HTTPStatus)
    }


def _name(shape: Shape) -> str:
    return shape.__name__.removesuffix("Out")
