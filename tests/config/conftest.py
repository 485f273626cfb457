from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from tests.config.workers import Workers


@pytest.fixture
def workers(tmp_path: Path, valkey: redis.Redis, valkey_url: str) -> Iterator[Workers]:
    port = int(valkey_url.rpartition(":")[2].partition("/")[0])
    with ExitStack() as stack:
        yield Workers(stack, tmp_path, port)
