"""Reads arrivals to replay from CSV with the columns t_us, subject, cost and, for concurrency, duration_us."""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headroom_edge.algorithms.base import EXACT_MAX, shown
from quotas.policies.spec import MOST_COST

COLUMNS = ("t_us", "subject", "cost")
DURATION = "duration_us"

_WHOLE = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Arrival:
    t_us: int  # since the epoch
    subject: str
    cost: int = 1
    duration_us: int | None = None  # how long it holds its slot; None: until the hold expires


class ArrivalsError(ValueError):
    """Says which line of the file is wrong, and what to write instead."""


def read_arrivals(lines: Iterable[str]) -> Iterator[Arrival]:
    rows = csv.reader(lines, strict=True)
    try:
        header = next(rows, [])
        _check_header(header)
        last_us = 0
        for row in rows:
            arrival = _arrival(header, row, rows.line_num)
            if arrival.t_us < last_us:
                raise ArrivalsError(
                    f"line {rows.line_num}: t_us {arrival.t_us} is before the line above; sort the file by t_us"
                )
            last_us = arrival.t_us
            yield arrival
    except csv.Error as error:
        raise ArrivalsError(f"line {rows.line_num}: this is not CSV: {error}") from None
    except UnicodeDecodeError:
        raise ArrivalsError(f"after line {rows.line_num}: this is not UTF-8 text") from None


def _check_header(header: list[str]) -> None:
    missing = [name for name in COLUMNS if name not in header]
    unknown = [name for name in header if name not in (*COLUMNS, DURATION)]
    twice = [name for name in header if header.count(name) > 1]
    if missing:
        raise ArrivalsError(f"line 1: column {missing[0]} is missing; the first line must be {','.join(COLUMNS)}")
    if unknown or twice:
        word = f"unknown column {shown(unknown[0])}" if unknown else f"column {twice[0]} appears twice"
        raise ArrivalsError(f"line 1: {word}; the columns are {', '.join(COLUMNS)} and, for concurrency, {DURATION}")


def _arrival(header: list[str], row: list[str], line: int) -> Arrival:
    if len(row) != len(header):
        raise ArrivalsError(f"line {line}: {len(row)} fields, but the first line names {len(header)}")
    fields = dict(zip(header, row, strict=True))
    duration = fields.get(DURATION, "")
    return Arrival(
        _whole(fields["t_us"], "t_us", 0, EXACT_MAX, line),
        fields["subject"],
        _whole(fields["cost"], "cost", 1, MOST_COST, line),
        _whole(duration, DURATION, 0, EXACT_MAX, line) if duration else None,
    )


def _whole(text: str, name: str, least: int, most: int, line: int) -> int:
    value = int(text) if _WHOLE.fullmatch(text) else -1
    if least <= value <= most:
        return value
    raise ArrivalsError(f"line {line}: {name} must be a whole number from {least} to {most}, not {shown(text)}")
