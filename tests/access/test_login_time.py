"""A login that fails costs the same hashing, whether the name is known or not."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import get_hasher
from django.contrib.auth.models import User

from tests.access.people import person

pytestmark = pytest.mark.django_db


def test_unknown_known_inactive_and_passwordless_names_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    User.objects.create_user("ann", password="right")
    User.objects.create_user("ian", password="right", is_active=False)
    person("nell")  # has no password
    hasher, made = type(get_hasher()), []
    encode = hasher.encode

    def counted(self: Any, *arguments: Any, **named: Any) -> str:
        made.append(1)
        return encode(self, *arguments, **named)

    monkeypatch.setattr(hasher, "encode", counted)
    counts = {}
    for name in ("ann", "ian", "nell", "nobody"):
        made.clear()
        assert authenticate(username=name, password="wrong") is None
        counts[name] = len(made)
    assert counts == dict.fromkeys(counts, 1)
