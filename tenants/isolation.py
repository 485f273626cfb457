"""Row-level security: a tenant's request can only see and write that tenant's rows in Postgres.

The application connects as a role that owns no tables. The tables' policies (tenants.row_security) depend on the
setting `headroom.tenant`: `*` allows all rows, a tenant's number that tenant's rows, anything else none. Connections
start with `*` (config.env); the transaction of a tenant's request narrows it. This is a second line of defence:
look-ups are scoped in tenants.scope already.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.db import connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver

SETTING: Final = "headroom.tenant"
EVERYTHING: Final = "*"

_wanted: ContextVar[str] = ContextVar("headroom.tenant", default=EVERYTHING)
_HELD: Final = "headroom_tenant"  # attribute of a connection: the current value of the setting


@contextmanager
def narrowed(number: int) -> Iterator[None]:
    """A transaction in which only this tenant's rows are visible."""
    with _seeing(str(number)):
        yield


@contextmanager
def unrestricted() -> Iterator[None]:
    """Lift the restriction inside a tenant's request, for code that must read more than it shows."""
    if _wanted.get() == EVERYTHING:
        yield
        return
    with _seeing(EVERYTHING):
        yield


@contextmanager
def _seeing(scope: str) -> Iterator[None]:
    former = _held(connection)
    # If the transaction or savepoint is rolled back, the setting is rolled back with it.
    with transaction.atomic():
        token = _wanted.set(scope)
        setattr(connection, _HELD, scope)
        try:
            _tell(connection, scope)
            yield
            if not connection.needs_rollback:
                _tell(connection, former)
        finally:
            setattr(connection, _HELD, former)
            _wanted.reset(token)


def _held(on: BaseDatabaseWrapper) -> str:
    return str(getattr(on, _HELD, EVERYTHING))


def _tell(on: BaseDatabaseWrapper, scope: str) -> None:
    with on.cursor() as cursor:
        cursor.execute("SELECT set_config(%s, %s, true)", [SETTING, scope])


@receiver(connection_created)
def _watch(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if _as_wanted not in connection.execute_wrappers:
        # First in the list, because whoever adds a wrapper for a while takes the last one off again.
        connection.execute_wrappers.insert(0, _as_wanted)


def _as_wanted(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Narrows statements outside of the request's transaction too: those of a stream, or of another thread."""
    on: BaseDatabaseWrapper = context["connection"]
    former, wanted = _held(on), _wanted.get()
    if former == wanted:
        return execute(sql, params, many, context)
    if on.alias not in connections or connections[on.alias] is not on:
        raise RuntimeError("A tenant's request must use Django's connection, because no other one is narrowed.")
    setattr(on, _HELD, wanted)
    try:
        with transaction.atomic(using=on.alias):
            _tell(on, wanted)
            answer = execute(sql, params, many, context)
            _tell(on, former)
            return answer
    finally:
        setattr(on, _HELD, former)


def stream(number: int, content: Iterable[Any]) -> Iterator[Any]:
    """A streamed body, narrowed chunk by chunk because the request's transaction has ended."""
    bits = iter(content)
    while True:
        with narrowed(number):
            bit = next(bits, None)
        if bit is None:
            return
        yield bit


async def astream(number: int, content: AsyncIterator[Any]) -> AsyncIterator[Any]:
    while True:
        token = _wanted.set(str(number))
        try:
            bit = await anext(content, None)
        finally:
            _wanted.reset(token)
        if bit is None:
            return
        yield bit
