from __future__ import annotations

import pytest
from redis.crc import key_slot

from headroom_edge.store.slots import slot_of


@pytest.mark.parametrize("key", ["", "foo", "hr:{17}", "hr:{17}:u", "{}x", "a{b}{c}", "a{b", "}{", "{{a}}", "é{ü}"])
def test_the_slot_is_the_one_that_redis_computes(key: str) -> None:
    assert slot_of(key) == key_slot(key.encode())
