"""Hash slots of a cluster: which node owns a key."""

from __future__ import annotations

from binascii import crc_hqx
from typing import Final

SLOTS: Final = 16_384


def slot_of(key: str | bytes) -> int:
    """A key's slot is that of its tag in braces, if it has one. Every key of ours has."""
    name = key.encode() if isinstance(key, str) else key
    start = name.find(b"{")
    if start >= 0:
        end = name.find(b"}", start + 1)
        if end > start + 1:
            name = name[start + 1 : end]
    # CRC-16/XMODEM, which is what crc_hqx computes.
    return crc_hqx(name, 0) % SLOTS
