"""People and machines that act within a test, for the rules about who somebody is."""

from __future__ import annotations

from typing import Any

from quotas.tokens import token_issue
from tenants.scope import Principal, principal_of_text, principal_of_user
from tests.access.people import person
from tests.quotas.world import SAID


def account(name: str, role: str = "approver") -> Principal:
    who = principal_of_user(person(name, role))
    assert who is not None
    return who


def machine(**fields: Any) -> Principal:
    issued = token_issue(**{"label": "ci", "role": "approver", "scopes": ["write", "approve"], **SAID, **fields})
    who = principal_of_text(str(issued.text))
    assert who is not None
    return who
