"""Reads arrivals to replay from CSV.

The columns are t_us and cost; then either subject, which stands for every dimension, or one column for each dimension
(team, key). Optional: tenant, endpoint, priority, and duration_us for concurrency.
"""

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headroom_edge.algorithms.base import EXACT_MAX, shown
from headroom_edge.plan.priority import PRIORITIES
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import ENDPOINT_PART, MOST_COST, TENANT_PATTERN

COLUMNS = ("t_us", "subject", "cost")
DURATION = "duration_us"
OPTIONAL = ("tenant", "endpoint", "priority")  # of a replay through policies
MOST_VALUE = 256  # characters of a dimension's value

_WHOLE = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_TENANT = re.compile(TENANT_PATTERN)
_ENDPOINT = re.compile(f"{ENDPOINT_PART}:{ENDPOINT_PART}")


@dataclass(frozen=True, slots=True)
class Arrival:
    t_us: int  # since the epoch
    subject: str = ""  # the value of every dimension that `dimensions` does not have
    cost: int = 1
    duration_us: int | None = None  # how long it holds its slot; None: until the hold expires
    dimensions: Mapping[str, str] = field(default_factory=dict)
    tenant: str = ""  # empty: the replay's own
    endpoint: str = ""
    priority: str = ""  # as the caller sends it; empty: none


class ArrivalsError(ValueError):
    """Says which line of the file is wrong, and what to write instead."""


def read_arrivals(lines: Iterable[str], subjects: Collection[Subject] | None = None) -> Iterator[Arrival]:
    """`subjects`: of the limits, whose dimensions may be columns. None: only the column subject may be."""
    rows = csv.reader(lines, strict=True)
    try:
        read = _reader(next(rows, []), subjects)
        last_us = 0
        for row in rows:
            arrival = read(row, rows.line_num)
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


def _reader(header: list[str], subjects: Collection[Subject] | None) -> Callable[[list[str], int], Arrival]:
    if subjects is None or "subject" in header:
        _check_header(header, COLUMNS, () if subjects is None else OPTIONAL)
        named: list[str] = []
    else:
        named = sorted({name for subject in subjects for names in subject.alternatives for name in names})
        _check_header(header, ("t_us", "cost"), (*named, *OPTIONAL))
        _check_subjects(header, subjects)
    counted = [(name, header.index(name)) for name in named if name in header]

    def read(row: list[str], line: int) -> Arrival:
        if len(row) != len(header):
            raise ArrivalsError(f"line {line}: {len(row)} fields, but the first line names {len(header)}")
        return _arrival(dict(zip(header, row, strict=True)), {name: row[at] for name, at in counted if row[at]}, line)

    return read


def _check_header(header: list[str], required: Sequence[str], optional: Sequence[str]) -> None:
    missing = [name for name in required if name not in header]
    unknown = [name for name in header if name not in (*required, *optional, DURATION)]
    twice = [name for name in header if header.count(name) > 1]
    if missing:
        raise ArrivalsError(f"line 1: column {missing[0]} is missing; the first line must be {','.join(required)}")
    if unknown or twice:
        word = f"unknown column {shown(unknown[0])}" if unknown else f"column {twice[0]} appears twice"
        columns = ", ".join((*required, *optional))
        raise ArrivalsError(f"line 1: {word}; the columns are {columns} and, for concurrency, {DURATION}")


def _check_subjects(header: list[str], subjects: Collection[Subject]) -> None:
    """A limit without its column would count all requests together."""
    for subject in subjects:
        missing = [name for name in subject.alternatives[-1] if name not in header] if subject.alternatives else []
        if missing and not any(set(names) <= set(header) for names in subject.alternatives):
            raise ArrivalsError(f"line 1: column {missing[0]} is missing; a limit counts by {subject}")


def _arrival(fields: Mapping[str, str], dimensions: Mapping[str, str], line: int) -> Arrival:
    duration = fields.get(DURATION, "")
    long = next((name for name, value in dimensions.items() if len(value) > MOST_VALUE), "")
    if long:
        raise ArrivalsError(f"line {line}: {long} is longer than {MOST_VALUE} characters; shorten it")
    return Arrival(
        _whole(fields["t_us"], "t_us", 0, EXACT_MAX, line),
        fields.get("subject", ""),
        _whole(fields["cost"], "cost", 1, MOST_COST, line),
        _whole(duration, DURATION, 0, EXACT_MAX, line) if duration else None,
        dimensions,
        *_place(fields, line),
    )


def _place(fields: Mapping[str, str], line: int) -> tuple[str, str, str]:
    tenant, endpoint, priority = (fields.get(name, "") for name in OPTIONAL)
    if tenant and not _TENANT.fullmatch(tenant):
        raise ArrivalsError(f"line {line}: tenant must be the name of a tenant, such as acme, not {shown(tenant)}")
    if endpoint and not _ENDPOINT.fullmatch(endpoint):
        wanted = "the name of an endpoint, such as payments:create"
        raise ArrivalsError(f"line {line}: endpoint must be {wanted}, not {shown(endpoint)}")
    if priority and priority not in PRIORITIES:
        raise ArrivalsError(f"line {line}: priority must be one of {', '.join(PRIORITIES)}, not {shown(priority)}")
    return tenant, endpoint, priority


def _whole(text: str, name: str, least: int, most: int, line: int) -> int:
    value = int(text) if _WHOLE.fullmatch(text) else -1
    if least <= value <= most:
        return value
    raise ArrivalsError(f"line {line}: {name} must be a whole number from {least} to {most}, not {shown(text)}")
