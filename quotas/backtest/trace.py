"""Reads a trace: CSV, plain or gzipped, with the columns timestamp, tenant and optionally endpoint, subject, cost.

Rows are read in chunks, so a file may have any length. Bad rows are counted, reported by line and skipped; a file with
too many of them is refused.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from headroom_edge.algorithms.base import EXACT_MAX, SECOND_US, shown
from quotas.backtest.file_problem import file_problem
from quotas.observations.arrays import Ints, whole_numbers
from quotas.policies.spec import MOST_COST

REQUIRED = ("timestamp", "tenant")
OPTIONAL = ("endpoint", "subject", "cost")
CHUNK_ROWS = 200_000
LATEST_S = EXACT_MAX // SECOND_US
MOST_SERIES = 1_000_000
SHOWN_BAD = 10
GZIP_MAGIC = b"\x1f\x8b"

CsvRow = list[str]


class TraceError(ValueError):
    """The message says what is wrong with the file and what to do about it."""


@dataclass(frozen=True, slots=True)
class BadRow:
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class SeriesName:
    tenant: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class TraceChunk:
    times_us: Ints
    series: Ints  # number of the pair of tenant and endpoint
    subjects: Ints | None  # hashes; None: the file has no such column
    costs: Ints | None


class _Numbers(dict[tuple[str, str], int]):
    """Gives each new pair of tenant and endpoint the next number."""

    def __missing__(self, pair: tuple[str, str]) -> int:
        if len(self) >= MOST_SERIES:
            raise TraceError(f"there are more than {MOST_SERIES:,} pairs of tenant and endpoint; split the file")
        self[pair] = len(self)
        return self[pair]


@dataclass(slots=True)
class TraceReader:
    path: Path
    most_bad: int
    rows: int = 0
    bad_rows: int = 0
    bad: list[BadRow] = field(default_factory=list)  # the first few
    columns: CsvRow = field(default_factory=list)
    _numbers: _Numbers = field(default_factory=_Numbers)

    def series(self) -> list[SeriesName]:
        """The pairs in the order of their numbers. Builds the list anew, so call it once."""
        return [SeriesName(tenant, endpoint) for tenant, endpoint in self._numbers]

    def chunks(self, progress: Callable[[int], None] = lambda _: None) -> Iterator[TraceChunk]:
        """Calls `progress` with the number of bytes read so far."""
        try:
            with self.path.open("rb") as raw:
                for chunk in self._chunks(_text(raw)):
                    progress(raw.tell())
                    yield chunk
        except OSError as error:
            raise TraceError(file_problem(error)) from None
        except (EOFError, zlib.error):
            raise TraceError("the gzip data ends early or is damaged; copy the file again") from None

    def _chunks(self, text: io.TextIOWrapper) -> Iterator[TraceChunk]:
        rows = csv.reader(text)
        self.columns = self._header(rows)
        line = rows.line_num
        while taken := self._take(rows):
            chunk = self._chunk(taken, line, rows.line_num)
            line = rows.line_num
            self.rows += len(chunk.times_us)
            if len(chunk.times_us):
                yield chunk

    def _header(self, rows: Iterator[CsvRow]) -> CsvRow:
        try:
            names = [name.strip().lower() for name in next(rows, [])]
        except csv.Error as error:
            raise TraceError(f"line 1: this is not CSV: {error}") from None
        for name in REQUIRED:
            if name not in names:
                raise TraceError(
                    f"line 1: column {name} is missing; the first line names timestamp, tenant and, if known, "
                    f"{', '.join(OPTIONAL)}"
                )
        twice = [name for name in (*REQUIRED, *OPTIONAL) if names.count(name) > 1]
        if twice:
            raise TraceError(f"line 1: column {twice[0]} appears twice")
        return names

    def _take(self, rows: Iterator[CsvRow]) -> list[CsvRow]:
        taken: list[CsvRow] = []
        while len(taken) < CHUNK_ROWS:
            before = len(taken)
            try:
                taken.extend(islice(rows, CHUNK_ROWS - len(taken)))
            except csv.Error as error:
                self._note(getattr(rows, "line_num", 0), f"not CSV: {error}")
                continue
            if len(taken) == before:
                break
        return taken

    def _chunk(self, taken: list[CsvRow], first_line: int, last_line: int) -> TraceChunk:
        """Converts all rows at once, which is fast; if any is bad, checks them one by one and drops the bad ones."""
        try:
            return self._convert(taken)
        except TraceError:
            raise
        except (ValueError, OverflowError):
            return self._convert(self._good(taken, first_line, last_line))

    def _good(self, taken: list[CsvRow], first_line: int, last_line: int) -> list[CsvRow]:
        good, line = [], first_line
        is_plain = last_line - first_line == len(taken)
        for row in taken:
            line += 1 if is_plain else 1 + sum(value.count("\n") for value in row)
            reason = self._problem(row)
            if reason:
                self._note(line, reason)
            else:
                good.append(row)
        return good

    def _note(self, line: int, reason: str) -> None:
        self.bad_rows += 1
        if len(self.bad) < SHOWN_BAD:
            self.bad.append(BadRow(line, reason))
        if self.bad_rows > self.most_bad:
            raise TraceError(
                f"more than {self.most_bad:,} bad rows, the last in line {line}: {reason}; correct the file"
            )

    def _problem(self, row: CsvRow) -> str:
        """Why the row is bad; empty if it is good."""
        if len(row) != len(self.columns):
            return f"{len(row)} fields, but the first line names {len(self.columns)}"
        fields = dict(zip(self.columns, row, strict=True))
        if not _is_between(fields["timestamp"], float, 0, LATEST_S):
            return f"timestamp must be seconds from 0 to {LATEST_S}, not {shown(fields['timestamp'])}"
        if not fields["tenant"] or not _is_text(fields["tenant"]) or not _is_text(fields.get("endpoint", "")):
            return f"tenant must be a name, not {shown(fields['tenant'])}"
        if not _is_between(fields.get("cost", "1"), int, 1, MOST_COST):
            return f"cost must be a whole number from 1 to {MOST_COST}, not {shown(fields['cost'])}"
        return ""

    def _convert(self, rows: list[CsvRow]) -> TraceChunk:
        """Raises ValueError if any row is bad."""
        columns = zip(*rows, strict=True) if rows else ((),) * len(self.columns)
        named, count = dict(zip(self.columns, columns, strict=True)), len(rows)
        seconds = np.fromiter(map(float, named["timestamp"]), np.float64, count)
        if not ((seconds >= 0) & (seconds <= LATEST_S)).all():
            raise ValueError("timestamp")
        costs = np.fromiter(map(int, named["cost"]), np.int64, count) if "cost" in named else None
        if costs is not None and not ((costs >= 1) & (costs <= MOST_COST)).all():
            raise ValueError("cost")
        pairs = list(zip(named["tenant"], named.get("endpoint", ("",) * count), strict=True))
        if not all(tenant and _is_text(tenant) and _is_text(endpoint) for tenant, endpoint in set(pairs)):
            raise ValueError("tenant")
        series = np.fromiter(map(self._numbers.__getitem__, pairs), np.int64, count)
        subjects = np.fromiter(map(hash, named["subject"]), np.int64, count) if "subject" in named else None
        return TraceChunk(whole_numbers(np.rint(seconds * SECOND_US)), series, subjects, costs)


def _text(raw: BinaryIO) -> io.TextIOWrapper:
    is_gzip = raw.read(2) == GZIP_MAGIC
    raw.seek(0)
    plain = gzip.GzipFile(fileobj=raw) if is_gzip else raw
    return io.TextIOWrapper(io.BufferedReader(plain, 1 << 20), "utf-8-sig", errors="surrogateescape", newline="")  # type: ignore[type-var]


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_between(text: str, kind: type[int] | type[float], least: int, most: int) -> bool:
    try:
        return least <= kind(text) <= most
    except ValueError:
        return False
