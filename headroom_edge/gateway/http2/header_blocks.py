"""Header blocks of one connection, decompressed by `hpack`, with a memo for the blocks that repeat.

A client such as Envoy sends the same bytes for every call once its fields are in the table. Bytes that were decoded
before mean the same again as long as the table has not changed since, so the memo is dropped whenever it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hpack import Decoder, HPACKError, OversizedHeaderListError

from headroom_edge.gateway.http2.frames import ErrorCode, Http2Error

LARGEST_LIST: Final = 16_384  # bytes of all fields, uncompressed, as HTTP/2 counts them
# Of one connection. Longer blocks are rare, and many connections may keep theirs.
BLOCKS_KEPT: Final = 16
LONGEST_KEPT: Final = 2_048  # bytes of a list
FIELD_BYTES: Final = 32  # that HTTP/2 adds for each field

Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HeaderList:
    fields: Fields  # repeated ones joined by commas
    size: int  # bytes, as HTTP/2 counts them


class HeaderBlocks:
    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=LARGEST_LIST)
        self._known: dict[bytes, HeaderList] = {}

    def read(self, block: bytes) -> HeaderList:
        """Raises Http2Error: after a fault the table cannot be trusted."""
        known = self._known.get(block)
        return self._decode(block) if known is None else known

    def _decode(self, block: bytes) -> HeaderList:
        before = self._table()
        try:
            decoded = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "the header list is over 16,384 bytes") from None
        except HPACKError:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, "the header block cannot be decoded") from None
        fields: dict[str, str] = {}
        size = 0
        for raw_name, raw_value in decoded:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            fields[name] = f"{fields[name]},{value}" if name in fields else value
            size += len(name) + len(value) + FIELD_BYTES
        found = HeaderList(fields, size)
        self._remember(block, found, before)
        return found

    def _remember(self, block: bytes, found: HeaderList, before: tuple[int, int, Any]) -> None:
        *sizes, newest = before
        *sizes_now, newest_now = self._table()
        # The entry itself, not its id: that of an entry which is gone may be another's by now.
        if sizes != sizes_now or newest is not newest_now:
            self._known = {}
        elif len(self._known) < BLOCKS_KEPT and max(found.size, len(block)) <= LONGEST_KEPT:
            self._known[block] = found

    def _table(self) -> tuple[int, int, Any]:
        """Differs whenever the table has changed: entries are added in front, and dropped at the end."""
        table = self._decoder.header_table
        entries = table.dynamic_entries
        return len(entries), table.maxsize, entries[0] if entries else None
