"""Accounts get their rights from a membership; the first owner is made by itself."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from quotas.errors import Refused
from quotas.members import member_remove, member_set
from quotas.models import AuditEvent
from tenants.scope import principal_of_user
from tests.access.people import person
from tests.quotas.world import SAID, make_world

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_the_role_that_was_given_last_holds() -> None:
    make_world()
    alice = person("alice")
    assert principal_of_user(alice) is None
    member_set(user="alice", role="tenant", tenant="acme", **SAID)
    member_set(user="alice", role="viewer", **SAID)
    found = principal_of_user(alice)
    assert found is not None
    assert (found.actor, found.role, found.tenant) == ("alice", "viewer", None)
    member_remove(user="alice", **SAID)
    assert principal_of_user(alice) is None
    assert [event.kind for event in AuditEvent.objects.order_by("id")] == ["member_set"] * 2 + ["member_removed"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"user": "nobody"}, "there is no account nobody"),
        ({"role": "root"}, "role must be one of"),
        ({"role": "tenant"}, "names the tenant"),
        ({"tenant": "acme"}, "names the tenant"),
        ({"role": "tenant", "tenant": "nobody"}, "there is no tenant nobody"),
    ],
)
def test_a_refusal_says_why(fields: dict[str, Any], sentence: str) -> None:
    person("alice")
    with pytest.raises(Refused, match=sentence):
        member_set(**{"user": "alice", "role": "viewer", **SAID, **fields})
    assert AuditEvent.objects.count() == 0


def test_the_command_gives_lists_and_takes_away() -> None:
    make_world()
    person("alice")
    User.objects.create(username="zoe", password="!", is_superuser=True)
    assert run("member", "set", "alice", "tenant", "--tenant", "acme") == "alice: tenant\n"
    assert run("member", "list") == "zoe  owner (superuser)\nalice  tenant of acme\n"
    run("member", "remove", "alice")
    assert run("member", "list") == "zoe  owner (superuser)\n"
    with pytest.raises(CommandError, match="alice has no role to take away"):
        run("member", "remove", "alice")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_command_asks_for_a_password_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: "seven green bicycles")
    run("member", "set", "alice", "operator", "--create")
    assert authenticate(username="alice", password="seven green bicycles") is not None


def test_the_command_creates_an_account_with_the_password_that_is_piped_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def unasked(prompt: str) -> str:
        raise AssertionError("getpass reads the terminal, not the pipe")

    monkeypatch.setattr("getpass.getpass", unasked)
    monkeypatch.setattr("sys.stdin", io.StringIO("seven green bicycles\n"))
    assert run("member", "set", "alice", "operator", "--create") == "alice: operator\n"
    assert authenticate(username="alice", password="seven green bicycles") is not None


@pytest.mark.parametrize(
    ("typed", "arguments", "sentence"),
    [
        ("seven green bicycles", ("alice", "tenant"), "names the tenant"),
        ("seven green bicycles", ("alice", "tenant", "--tenant", "nobody"), "there is no tenant nobody"),
        ("", ("alice", "operator"), "too short"),
        ("x", ("alice", "operator"), "too short"),
        ("seven green bicycles", ("al ice", "operator"), "valid username"),
        (None, ("alice", "operator"), "there is no password to read"),
    ],
)
def test_an_account_that_is_refused_does_not_stay(
    monkeypatch: pytest.MonkeyPatch, typed: str | None, arguments: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("" if typed is None else f"{typed}\n"))
    with pytest.raises(CommandError, match=sentence):
        run("member", "set", *arguments, "--create")
    assert User.objects.count() == 0


def test_an_installation_without_an_owner_gets_one(settings: Settings, tmp_path: Path) -> None:
    path = settings.HEADROOM_OWNER_PASSWORD = tmp_path / "password"
    run("first_owner")
    assert path.stat().st_mode & 0o777 == 0o600
    found = principal_of_user(authenticate(username="owner", password=path.read_text()))
    assert found is not None
    assert found.role == "owner"
    run("first_owner")
    assert User.objects.count() == 1
    assert path.exists()


def test_a_changed_password_is_not_shown_any_more(settings: Settings, tmp_path: Path) -> None:
    path = settings.HEADROOM_OWNER_PASSWORD = tmp_path / "password"
    run("first_owner")
    owner = User.objects.get()
    owner.set_password("something of one's own")
    owner.save()
    assert "changepassword" in run("first_owner")
    assert not path.exists()


def test_who_has_an_owner_gets_no_other(settings: Settings, tmp_path: Path) -> None:
    settings.HEADROOM_OWNER_PASSWORD = tmp_path / "password"
    person("alice", "owner")
    assert run("first_owner").startswith("there is an owner already, alice;")
    assert User.objects.count() == 1
