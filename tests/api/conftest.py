from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

from tests.quotas.world import make_world


@pytest.fixture
def world(db: None) -> None:
    make_world()


@pytest.fixture
def client(db: None) -> APIClient:
    """Ann, who may do everything."""
    user = get_user_model().objects.create_superuser("ann", password=None)
    client = APIClient()
    client.force_login(user)
    return client
