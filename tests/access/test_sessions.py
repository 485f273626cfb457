"""Sessions outlive a change of SECRET_KEY, for every request that is under way."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as conf
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from access.authentication import is_known
from tests.access.people import signed_in
from tests.quotas.world import make_world

pytestmark = pytest.mark.django_db(transaction=True)

NEW = "a-new-value-of-sixty-characters-or-so-0123456789-abcdefghijkl"


@pytest.fixture
def ann(valkey: object, settings: Any) -> Client:
    """Signed in before SECRET_KEY changed."""
    make_world()
    client = signed_in("ann", "operator")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, [settings.SECRET_KEY]
    return client


def another_request_of(client: Client) -> Client:
    """With the cookies as they are now."""
    other = Client()
    other.cookies.load(client.cookies.output(header="", sep=";"))
    return other


def test_requests_that_were_sent_at_once_are_all_signed_in(ann: Client) -> None:
    second, third = another_request_of(ann), another_request_of(ann)
    scope = {"type": "http", "method": "POST", "path": "/v1/document/plan", "query_string": b""}
    key = ann.cookies[conf.SESSION_COOKIE_NAME].value
    assert is_known({**scope, "headers": [(b"cookie", f"{conf.SESSION_COOKIE_NAME}={key}".encode())]})
    for client in (ann, second, third):
        assert client.get("/tenants").status_code == 200
        assert client.cookies[conf.SESSION_COOKIE_NAME].value == key


def test_the_session_lasts_when_the_former_value_is_gone(ann: Client, settings: Any) -> None:
    ann.get("/tenants")
    settings.SECRET_KEY_FALLBACKS = []
    assert ann.get("/tenants").status_code == 200


def test_a_new_password_ends_it_as_ever(ann: Client) -> None:
    user = User.objects.get(username="ann")
    user.set_password("another")
    user.save()
    assert ann.get("/tenants").status_code == 302
    assert not Session.objects.exists()
