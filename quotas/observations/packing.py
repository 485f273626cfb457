"""Packs columns of whole numbers into bytes: the smallest width that fits each, then zlib if that helps.

Usage data is sparse and repetitive, so a row takes two or three bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from quotas.observations.arrays import Ints

PLAIN: Final = b"\x00"
SQUEEZED: Final = b"\x01"
WORTH_SQUEEZING: Final = 80  # bytes; below, zlib's overhead is larger than its gain
FEW: Final = 200  # numbers; up to this many, Python's min and max are faster than numpy's
_HEAD: Final = struct.Struct("<IB")  # rows, columns; followed by the width of each column in bytes, 0: all zeros
_TYPES: Final[dict[int, np.dtype[np.signedinteger[Any]]]] = {
    1: np.dtype("<i1"),
    2: np.dtype("<i2"),
    4: np.dtype("<i4"),
    8: np.dtype("<i8"),
}


def pack(columns: Sequence[Ints], level: int = 6) -> bytes:
    """The columns must have equal length."""
    widths = [_width(column) for column in columns]
    parts = [_HEAD.pack(len(columns[0]), len(columns)), bytes(widths)]
    parts += [column.astype(_TYPES[width]).tobytes() for column, width in zip(columns, widths, strict=True) if width]
    whole = b"".join(parts)
    if len(whole) > WORTH_SQUEEZING:
        squeezed = zlib.compress(whole, level)
        if len(squeezed) < len(whole):
            return SQUEEZED + squeezed
    return PLAIN + whole


def unpack(packed: bytes | memoryview) -> list[Ints]:
    """Raises ValueError if that is not what `pack` returns."""
    try:
        return _unpack(bytes(packed))
    except (zlib.error, struct.error, KeyError) as error:
        raise ValueError(f"these are not packed columns: {error}") from error


def _unpack(data: bytes) -> list[Ints]:
    whole = zlib.decompress(data[1:]) if data[:1] == SQUEEZED else data[1:]
    rows, columns = _HEAD.unpack_from(whole)
    place = _HEAD.size + columns
    found: list[Ints] = []
    for width in whole[_HEAD.size : place]:
        if width:
            found.append(np.frombuffer(whole, _TYPES[width], rows, place).astype(np.int64))
        else:
            found.append(np.zeros(rows, np.int64))
        place += width * rows
    return found


def _width(column: Ints) -> int:
    if not len(column):
        return 0
    low, high = _ends(column)
    if low == high == 0:
        return 0
    return next(width for width in _TYPES if -(1 << 8 * width - 1) <= low and high < 1 << 8 * width - 1)


def _ends(column: Ints) -> tuple[int, int]:
    if len(column) > FEW:
        return int(column.min()), int(column.max())
    values = column.tolist()
    return min(values), max(values)


def deltas(ascending: Ints, base: int = 0) -> Ints:
    """Differences between neighbours; `np.cumsum` restores the values."""
    return np.diff(ascending, prepend=base)


def groups(*keys: Ints) -> Ints:
    """Indexes at which a row of the sorted columns differs from the one before: the starts of groups."""
    if not len(keys[0]):
        return np.empty(0, np.int64)
    differs = np.zeros(len(keys[0]), bool)
    differs[0] = True
    for key in keys:
        differs[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(differs)
