from __future__ import annotations

import pytest

from tests.services.world import make_world


@pytest.fixture
def world(db: None) -> None:
    make_world()
