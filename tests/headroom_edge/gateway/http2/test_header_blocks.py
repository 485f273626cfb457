"""A memo of header blocks must never tell what an earlier table said: a field may be a credential."""

from __future__ import annotations

import pytest

from headroom_edge.gateway.http2.frames import literal
from headroom_edge.gateway.http2.header_blocks import HeaderBlocks

NEWEST = b"\xbe"  # the newest entry of the dynamic table
EMPTIED = b"\x20\x3f\xe1\x1f"  # its size is set to 0, then to 4,096
PAD = "x" * 2_500  # of which the table holds one


def inserted(name: str, value: str) -> bytes:
    return b"\x40" + literal(name, value)[1:]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (inserted("token", "a"), EMPTIED + inserted("token", "b")),
        (inserted("token", "a" + PAD), inserted("pad", PAD) + inserted("token", "b" + PAD)),
        (inserted("token", "a"), inserted("token", "b")),
    ],
)
def test_a_repeated_block_means_what_the_table_says_now(first: bytes, second: bytes) -> None:
    """An entry that is gone may leave its place in memory to the next one, so this is tried many times."""
    for _ in range(100):
        blocks = HeaderBlocks()
        blocks.read(first)
        assert blocks.read(NEWEST).fields["token"][0] == "a"
        blocks.read(second)
        assert blocks.read(NEWEST).fields["token"][0] == "b"


def test_the_same_block_is_decoded_once_while_the_table_stays() -> None:
    blocks = HeaderBlocks()
    blocks.read(inserted("token", "a"))
    assert blocks.read(NEWEST) is blocks.read(NEWEST)


def test_long_lists_are_not_kept() -> None:
    blocks = HeaderBlocks()
    blocks.read(inserted("token", "a" * 3_000))
    assert blocks.read(NEWEST) is not blocks.read(NEWEST)
