from __future__ import annotations

import pytest

from tests.quotas.world import make_world


@pytest.fixture
def world(db: None) -> None:
    make_world()
