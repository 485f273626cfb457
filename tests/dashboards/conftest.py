from __future__ import annotations

import pytest
from django.test import Client

from tests.access.people import signed_in


@pytest.fixture
def client(db: None) -> Client:
    """Of somebody who may look at everything."""
    return signed_in("alice", "viewer")
