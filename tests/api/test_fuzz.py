"""Every operation of the OpenAPI document, as every role, with what fits it and what does not (schemathesis).

Never a 5xx; never an answer that the document does not describe; never a violation of it taken for good; never a
request that it allows called malformed (400). What fits is refused only for a rule that no schema can state: with 404,
409 or 412, or with 422 and a code in BEYOND.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest
import redis
import schemathesis
from django.conf import settings as django_settings
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import CheckContext, GenerationMode, Response, checks
from schemathesis.core.result import Ok
from schemathesis.generation.case import Case
from schemathesis.schemas import APIOperation

from api.openapi import gateway_operations
from api.openapi.page import document
from quotas.api_keys import api_key_issue
from quotas.changes.rollout import change_propose
from quotas.models import Freeze
from quotas.models.revision import newest_revision_number
from quotas.overrides import override_create
from quotas.policies.edit import limit_set
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from tests.access.people import token
from tests.quotas.world import DOCUMENT, GET, PAY, SAID, bucket

Operation = APIOperation[Any, Any, Any, Any]


def what_fits_is_accepted(ctx: CheckContext, answer: Response, case: Case[Any]) -> None:
    """Or refused for a rule that no schema can state."""
    if case.meta is None or not case.meta.generation.mode.is_positive or answer.status_code < 400:
        return
    problem = answer.json()
    # A document and a table are text here; a document has a schema of its own, /v1/document/schema.
    is_document = isinstance(case.body, dict) and not case.body.keys().isdisjoint({"document", "csv"})
    is_beyond = answer.status_code == 422 and (problem["code"] in BEYOND or is_document)
    assert is_beyond or answer.status_code in REFUSED, problem


CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    what_fits_is_accepted,
]
ROLES = ("viewer", "operator", "approver", "owner", "tenant")
# What is there, for parameters and fields of these names: made-up names would only ever be "not found".
THERE: dict[str, list[Any]] = {
    "tier": ["free", "pro"],
    "tenant": ["acme", "bolt"],
    "endpoint": [PAY, GET, "*"],
    "policy": ["free-all", "pro-all"],
    "limit": ["burst", "minute"],
    "about": ["all", "tenant:acme"],
    "csv": ["name,tier\ncarl,free\ndora,pro\n", "name,tags\nacme,eu\n"],
    "duration": ["5m"],
    "alert": ["quota-80", "denied-share"],
    "document": [DOCUMENT, DOCUMENT.replace("rate: 10,", "rate: 12,"), "policies: [{name: x}]"],
}
# Codes of 422, and why no schema can state the rule.
BEYOND = {
    "address": "the host of a webhook has to be found, and to be public",
    "archived": "it depends on what was done before",
    "author": "whoever wrote a change cannot approve it",
    "below-peak": "it depends on what tenants have asked for",
    "both": "a tag cannot be added and removed at once",
    "built-in": "one tier has the limits on Headroom's own API",
    "canary": "it depends on the change, and on the tenants of its tiers",
    "change": "it depends on what was done before",
    "contact": "what a mail address is, no short pattern says",
    "cursor": "it is signed",
    "cut": "it depends on the limits that are live",
    "differs": "it depends on how many tenants match",
    "duplicate": "two limits of one policy have the same name",
    "empty": "the last limit of a policy stays",
    "endless": "only an override that ends can end later",
    "endpoint": "only a policy for everyone can be about a whole service",
    "exhausted": "it depends on what there is",
    "far": "it depends on the clock",
    "fixed": "only the limits of a policy can be changed",
    "gone": "it depends on what there is",
    "idempotency-key-reused": "it depends on earlier requests",
    "incomparable": "it depends on the limits that are live",
    "issuer": "it depends on who is known",
    "kind": "it depends on the limit that the recommendation is about",
    "last": "the only owner stays",
    "less": "it depends on the limits that are live",
    "mail": "it depends on the installation",
    "many": "it depends on what there is",
    "more": "it depends on what was asked for",
    "newer": "it depends on what was done before",
    "no-candidate": "it depends on what was done before",
    "order": "one time has to be before another",
    "over": "it depends on the clock",
    "override": "it depends on the limits that are live",
    "own": "one tenant and one tier are Headroom's own",
    "parameter": "it depends on several numbers together, such as rate times per",
    "past": "it depends on the clock",
    "path": "a variable may be named once; . and .. are no segments",
    "place": "nobody can stay on a tier that is retired",
    "policies-only": "it depends on what the change is about",
    "range": "it depends on the unit of the rule",
    "replaces": "it depends on the limits that are live",
    "same": "it depends on the tier, or on who asks",
    "scope": "it depends on the scopes of the token",
    "stage": "it depends on what was done before",
    "stale": "it depends on what was measured since",
    "stand-in": "it depends on what there is",
    "state": "it depends on what was done before",
    "stranded": "it depends on the overrides that are live",
    "subject": "a dimension may be named once",
    "timezone": "the zone has to exist",
    "too-early": "it depends on the clock",
    "too-long": "how long a freeze lasts depends on two times",
    "too-many": "it depends on several values, or on what there is",
    "trial": "it depends on what was done before",
    "unknown": "what is named has to exist",
    "zone": "a calendar quota for everyone has no tenant",
}
REFUSED = frozenset({401, 403, 404, 409, 412, 423})
BOTH = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
NUMBERS = itertools.count()
KINDS = {"tiers": "tier", "tenants": "tenant", "endpoints": "endpoint", "policies": "policy", "alert-rules": "alert"}


@pytest.fixture(autouse=True)
def one_connection() -> Iterator[None]:
    """A server closes a connection that is in a transaction; here that is the transaction of the test."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def world(world: None, valkey: redis.Redis) -> None:
    THERE["key_id"] = [api_key_issue(tenant="acme", **SAID).row.key_id]
    override = override_create(tenant="acme", multiplier=(2, 1), **SAID)
    change = change_propose(limit_set, policy="free-all", limit=bucket(12), **SAID)
    # The next change, too: what one operation makes, a later one may work on. Sequences begin where other tests left.
    THERE["number"] = [override.pk, change.pk, change.pk + 1, newest_revision_number()]
    client = store.connect(django_settings.REDIS_URL)
    store.prepare(client)
    Publisher(client, django_settings.HEADROOM_SHARDS).publish()


@cache
def operations() -> list[Operation]:
    # Each role has its token: a made-up one would only ever be refused.
    paths = {
        path: {method: {k: v for k, v in raw.items() if k != "security"} for method, raw in methods.items()}
        for path, methods in document()["paths"].items()
        if path
        not in gateway_operations.PATHS  # another application serves these; tests/gateway holds it to the document
    }
    schema = schemathesis.openapi.from_dict({**document(), "paths": paths})
    rejection = schema.config.checks.negative_data_rejection
    # Rules of several fields are checked after the precondition; text that is too long can be a body that is.
    rejection.expected_statuses = [*rejection.expected_statuses, "412", "413"]
    return [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]


def named(operation: Operation, parameter: str) -> list[Any]:
    """What is there for a parameter of the path."""
    kind = KINDS.get(operation.path.split("/")[2], "") if parameter == "name" else parameter
    return THERE.get(kind, [])


@st.composite
def cases(draw: st.DrawFn, operation: Operation, mode: GenerationMode) -> Case[Any]:
    case: Case[Any] = draw(operation.as_strategy(generation_mode=mode))
    if mode is GenerationMode.POSITIVE and draw(st.integers(0, 3)):
        for name, value in case.path_parameters.items():
            case.path_parameters[name] = draw(st.sampled_from(named(operation, name) or [value]))
        if isinstance(case.body, dict):
            for name in case.body.keys() & THERE.keys():
                if isinstance(case.body[name], str):
                    case.body[name] = draw(st.sampled_from(THERE[name]))
        if "If-Match" in case.headers:
            case.headers["If-Match"] = "*"
    if "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = f"key-{next(NUMBERS)}"
    return case


def fuzz(role: str, examples: int, modes: Sequence[GenerationMode], **how: Any) -> None:
    text = token(role, tenant="acme" if role == "tenant" else None)
    app = get_wsgi_application()
    for operation in operations():
        for mode in modes:

            @settings(max_examples=examples, database=None, suppress_health_check=list(HealthCheck), **how)
            @given(case=cases(operation, mode))
            def attempt(case: Case[Any]) -> None:
                case.call_and_validate(app=app, headers={"Authorization": f"Bearer {text}"}, checks=CHECKS)

            for _ in _possible(operation, mode):
                attempt()
                Freeze.objects.all().delete()  # it would refuse all changes that follow


def _possible(operation: Operation, mode: GenerationMode) -> Iterator[None]:
    """Once; never for what has nothing that could be wrong."""
    has_input = operation.body or operation.query or operation.headers or operation.path_parameters
    if mode is GenerationMode.POSITIVE or has_input:
        yield


@pytest.mark.usefixtures("world")
def test_no_operation_breaks_its_promise() -> None:
    """Every operation as the owner, who reaches all of them; the sweep below has every role and more examples."""
    fuzz("owner", 1, BOTH, phases=[Phase.generate], derandomize=True)


@pytest.mark.sweep
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.usefixtures("world")
def test_no_operation_breaks_its_promise_for_any_role(role: str) -> None:
    """What does not fit is tried as the owner: whoever may not do it is refused before it is read."""
    modes, examples = (BOTH, 5) if role == "owner" else (BOTH[:1], 2)
    fuzz(role, examples, modes, phases=[Phase.generate], derandomize=True)


@pytest.mark.faults_long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.usefixtures("world")
def test_no_operation_breaks_its_promise_for_long(role: str) -> None:
    fuzz(role, 200, BOTH, phases=[Phase.generate, Phase.shrink])
