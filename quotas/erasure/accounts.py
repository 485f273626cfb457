"""Erases a person who has an account: the name becomes a pseudonym wherever it is stored.

The account's row stays, because others refer to it, but nobody can sign in with it. The audit is append-only for the
application. Only the owner of the tables can do this, in one transaction that nobody writes beside; the audit says
that it happened. What people wrote, such as reasons, stays as it is.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from django.apps import apps
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Q, QuerySet
from psycopg.sql import SQL, Composable, Identifier

from quotas.erasure.traces import Trace
from quotas.errors import author_and_reason, refuse
from quotas.models import AuditEvent, SavedView
from tenants.history import acting
from tenants.models import ApiToken, Membership, Role
from tenants.privileges import as_owner

# Columns, and members of JSON objects, that name whoever did something.
NAMES: Final = (
    *(
        "author",
        "end_author",
        "answer_author",
        "lifted_author",
        "starter",
        "approver",
        "reviewer",
        "editor",
        "decider",
        "actor",
    ),
    *("user", "username", "issuer", "by"),
)
# Columns and members in which Headroom writes sentences of its own: alerts, refusals, who may pass a freeze.
SENTENCES: Final = ("text", "problem", "detail", "may_pass")
_COLUMNS: Final = """
    SELECT table_name, column_name, data_type = 'jsonb', character_maximum_length FROM information_schema.columns
    JOIN pg_class ON relname = table_name AND relnamespace = 'public'::regnamespace
    WHERE table_schema = 'public' AND relkind IN ('r', 'p') AND NOT relispartition
    AND table_name ~ '^(quotas|tenants|api)_'
    AND (data_type = 'jsonb' OR data_type IN ('character varying', 'text') AND column_name = ANY(%s))
    ORDER BY 1, 2
"""
_MEMBER: Final = re.compile(rf'"(?P<member>{"|".join([*NAMES, *SENTENCES])})": (?P<text>"(?:[^"\\]|\\.)*")')
LOCK_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class _Column:
    table: str
    name: str
    is_json: bool
    longest: int | None  # characters

    def sql(self, statement: str) -> Composable:
        return SQL(statement).format(table=Identifier(self.table), column=Identifier(self.name))


@dataclass(frozen=True, slots=True)
class _Renaming:
    name: str
    pseudonym: str

    def in_text(self, column: _Column, text: str) -> str:
        """The text of a JSON value or of a sentence. A pseudonym may be longer than the name, so the end is cut."""
        if column.is_json:
            return _MEMBER.sub(self._in_member, text)
        return self._in_sentence(text)[: column.longest]

    def _in_member(self, found: re.Match[str]) -> str:
        member, text = found["member"], json.loads(found["text"])
        if member in NAMES:
            return f'"{member}": "{self.pseudonym}"' if text == self.name else found[0]
        return f'"{member}": {json.dumps(self._in_sentence(text), ensure_ascii=False)}'

    def _in_sentence(self, text: str) -> str:
        """Not within another name: those have letters, digits and @ . + - _. A full stop may also end a sentence."""
        return re.sub(rf"(?<![\w@.+-]){re.escape(self.name)}(?![\w@+-]|\.\w)", self.pseudonym, text)


@dataclass(frozen=True, slots=True)
class ErasedAccount:
    pseudonym: str
    traces: list[Trace]
    tokens: list[str]  # ids of those it issued that still work: services may need them


def account_traces(name: str) -> list[Trace]:
    """What `account_erase` would change."""
    user = _find(name)
    with as_owner(connection.alias), connection.cursor() as cursor:
        renaming = _Renaming(name, _pseudonym())
        traces = [_trace(column, _count(cursor, column, renaming)) for column in _columns(cursor)]
    private = Trace("saved views", _private_views(user).count())
    return _some(Trace("account", 1), Trace("sessions", len(_sessions(user))), private, *traces)


def account_erase(*, name: str, author: str, reason: str) -> ErasedAccount:
    """Run it outside of a transaction: it reconnects as the owner of the tables."""
    author, reason = author_and_reason(author, reason)
    user = _find(name)
    if name == author:
        raise refuse("author", "same", "nobody erases their own account; let somebody else do it")
    _refuse_last_owner(user)
    renaming = _Renaming(name, _pseudonym())
    with as_owner(connection.alias), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        sessions = _sessions(user)
        Session.objects.filter(pk__in=[session.pk for session in sessions]).delete()
        with acting(author=author, action="account_erase", reason=reason):
            _disable(user)
        views, _ = _private_views(user).delete()
        _erase_account(cursor, user, renaming.pseudonym)
        traces = [_trace(column, _replace(cursor, column, renaming)) for column in _columns(cursor)]
        detail = {"account": renaming.pseudonym, "author": author, "reason": reason}
        AuditEvent.objects.create(kind="account_erased", detail=detail)
    working = ApiToken.objects.filter(issuer=user.pk, revoked_at=None).order_by("key_id")
    tokens = list(working.values_list("key_id", flat=True))
    everything = _some(Trace("account", 1), Trace("sessions", len(sessions)), Trace("saved views", views), *traces)
    return ErasedAccount(renaming.pseudonym, everything, tokens)


def _find(name: str) -> User:
    user = User.objects.filter(username=name).first()
    if user is None:
        raise refuse("account", "unknown", f"there is no account {name}; correct the name")
    return user


def _pseudonym() -> str:
    return f"erased-{secrets.token_hex(4)}"


def _refuse_last_owner(user: User) -> None:
    is_owner = Q(is_superuser=True) | Q(membership__role=Role.OWNER)
    owners = User.objects.filter(is_owner, is_active=True)
    if set(owners) == {user}:
        raise refuse("account", "last", f"{user.username} is the only owner; make somebody else an owner first")


def _sessions(user: User) -> list[Session]:
    return [row for row in Session.objects.all() if row.get_decoded().get(SESSION_KEY) == str(user.pk)]


def _private_views(user: User) -> QuerySet[SavedView]:
    """Those that are shared stay, under the pseudonym, because others use them."""
    return SavedView.objects.filter(owner=user, is_shared=False)


def _disable(user: User) -> None:
    Membership.objects.filter(user=user).delete()
    nobody = make_password(None)
    User.objects.filter(pk=user.pk).update(is_active=False, is_superuser=False, is_staff=False, password=nobody)


def _erase_account(cursor: CursorWrapper, user: User, pseudonym: str) -> None:
    for table in ("auth_user", "tenants_accountevent"):
        statement = SQL("UPDATE {} SET username = %s, first_name = '', last_name = '', email = '' WHERE id = %s")
        with _without_triggers(cursor, table):
            cursor.execute(statement.format(Identifier(table)), [pseudonym, user.pk])


def _columns(cursor: CursorWrapper) -> list[_Column]:
    cursor.execute(_COLUMNS, [[*NAMES, *SENTENCES]])
    return [_Column(*row) for row in cursor.fetchall()]


def _count(cursor: CursorWrapper, column: _Column, renaming: _Renaming) -> int:
    if column.name in NAMES:
        cursor.execute(column.sql("SELECT count(*) FROM {table} WHERE {column} = %s"), [renaming.name])
        return int(cursor.fetchone()[0])
    return sum(1 for _ in _renamed(cursor, column, renaming))


def _replace(cursor: CursorWrapper, column: _Column, renaming: _Renaming) -> int:
    # Most tables do not have the name. They need no lock.
    if not (count := _count(cursor, column, renaming)):
        return 0
    with _without_triggers(cursor, column.table):
        if column.name in NAMES:
            statement = column.sql("UPDATE {table} SET {column} = %s WHERE {column} = %s")
            cursor.execute(statement, [renaming.pseudonym, renaming.name])
            return int(cursor.rowcount)
        statement = column.sql("UPDATE {table} SET {column} = %s WHERE tableoid = %s AND ctid = %s::tid")
        for row in _renamed(cursor, column, renaming):
            cursor.execute(statement, row)
    return count


def _renamed(cursor: CursorWrapper, column: _Column, renaming: _Renaming) -> Iterator[tuple[str, int, str]]:
    """New texts and the places of their rows, one at a time: a revision may have megabytes.

    Rows with the name elsewhere, such as in a reason, are not among them.
    """
    name = json.dumps(renaming.name, ensure_ascii=False)[1:-1] if column.is_json else renaming.name
    places = column.sql("SELECT tableoid::int8, ctid::text FROM {table} WHERE strpos({column}::text, %s) > 0")
    read = column.sql("SELECT {column}::text FROM {table} WHERE tableoid = %s AND ctid = %s::tid")
    cursor.execute(places, [name])
    for place in cursor.fetchall():
        cursor.execute(read, place)
        text = cursor.fetchone()[0]
        if (renamed := renaming.in_text(column, text)) != text:
            yield renamed, *place


@contextmanager
def _without_triggers(cursor: CursorWrapper, table: str) -> Iterator[None]:
    """The lock that this takes keeps every other writer out until the transaction ends."""
    cursor.execute(SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(Identifier(table)))
    yield
    cursor.execute(SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(Identifier(table)))


def _trace(column: _Column, count: int) -> Trace:
    place = f"{column.table}.{column.name}"
    model = next((model for model in apps.get_models() if model._meta.db_table == column.table), None)
    if model is None:
        return Trace(place, count)
    words = f"{model._meta.verbose_name}: {column.name.replace('_', ' ')}"
    return Trace(f"{words} ({place})", count)


def _some(*traces: Trace) -> list[Trace]:
    return [trace for trace in traces if trace.count]
