"""Header blocks of one connection, decompressed by `hpack`, with a memo for the blocks that repeat.

A client such as Envoy sends the same bytes for every call once its fields are in the table. Bytes that were decoded
before mean the same again as long as the table has not changed since, so the memo is dropped whenever it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpack import Decoder, HPACKError, OversizedHeaderListError

from headroom_edge.gateway.http2.frames import ErrorCode, Http2Error

LARGEST_LIST: Final = 16_384  # bytes of all fields, uncompressed, as HTTP/2 counts them
BLOCKS_KEPT: Final = 64

Fields = Mapping[str, str]


class HeaderBlocks:
    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=LARGEST_LIST)
        self._known: dict[bytes, Fields] = {}

    def fields(self, block: bytes) -> Fields:
        """Repeated fields are joined by commas. Raises Http2Error: after a fault the table cannot be trusted."""
        known = self._known.get(block)
        return self._decode(block) if known is None else known

    def _decode(self, block: bytes) -> Fields:
        before = self._table()
        try:
            decoded = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "the header list is over 16,384 bytes") from None
        except HPACKError:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, "the header block cannot be decoded") from None
        found: dict[str, str] = {}
        for raw_name, raw_value in decoded:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            found[name] = f"{found[name]},{value}" if name in found else value
        self._remember(block, found, before)
        return found

    def _remember(self, block: bytes, found: Fields, before: tuple[object, ...]) -> None:
        if self._table() != before:
            self._known = {}
        elif len(self._known) < BLOCKS_KEPT:
            self._known[block] = found

    def _table(self) -> tuple[object, ...]:
        """Differs whenever the table has changed: entries are added in front, and dropped at the end."""
        table = self._decoder.header_table
        entries = table.dynamic_entries
        return len(entries), id(entries[0]) if entries else 0, table.maxsize
