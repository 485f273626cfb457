"""Limits as a table: what is written is read again, and what is wrong is named by its line."""

from __future__ import annotations

import pytest

from quotas.matrix.sheet import COLUMNS, SheetRow, read_sheet, write_sheet
from quotas.policies.problems import Problem

HEADER = "tier,endpoint,name,algorithm,rate,burst,window,limit,mode"


def said(text: str) -> list[tuple[int | None, str]]:
    found = read_sheet(text)
    return [(problem.line, problem.message) for problem in found if isinstance(problem, Problem)]


def test_what_is_written_is_read_again() -> None:
    rows = [
        (
            "pro",
            "rides:get",
            "burst",
            {"algorithm": "token_bucket", "rate": 5, "per": "1s", "burst": 9, "lease": "250ms"},
        ),
        (None, "*", "quota", {"algorithm": "calendar_quota", "limit": 9, "period": "month", "anchor": 3}),
    ]
    text = write_sheet(rows)
    assert text.splitlines()[0] == ",".join(COLUMNS)
    found = [row for row in read_sheet(text) if isinstance(row, SheetRow)]
    assert [(row.tier, row.endpoint, row.name, dict(row.fields)) for row in found] == rows
    assert [row.line for row in found] == [2, 3]


def test_a_spreadsheet_may_add_a_mark_and_empty_lines() -> None:
    text = f"\N{ZERO WIDTH NO-BREAK SPACE}{HEADER}\r\n,,,,,,,,\r\npro, * ,burst,token_bucket,5,10,,,\r\n"
    [row] = read_sheet(text)
    assert isinstance(row, SheetRow)
    assert (row.line, row.endpoint, row.fields["rate"]) == (3, "*", 5)


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("", 1, "column tier is missing"),
        (f"{HEADER},colour\n", 1, "no column 'colour'"),
        (f"{HEADER}\n", 1, "no row below the header"),
        (f"{HEADER}\npro,*,burst,token_bucket,many,10,,,\n", 2, "rate must be a number above 0"),
        (f"{HEADER}\npro,*,burst,token_bucket,5,10,,,\npro,,b,token_bucket,5,10,,,\n", 3, "endpoint is missing"),
        (f"{HEADER}\npro,*,a,token_bucket,5,10,,,\npro,*,a,token_bucket,6,10,,,\n", 3, "line 2 has the same limit"),
        (f"{HEADER}\npro,*,Burst!,token_bucket,5,10,,,\n", 2, "name cannot be"),
        (f"{HEADER}\npro,*,burst,token_bucket,5,10,1m,,\n", 2, "window is not a field of token_bucket"),
        (f"{HEADER}\npro,*,burst,token_bucket,5\n", 2, "more or fewer cells"),
        (f"{HEADER},lease\npro,*,burst,token_bucket,5,10,,,,5s\n", 2, "lease must be never or a duration"),
        (f'{HEADER}\npro,*,"burst,token_bucket,5\n', 2, "not CSV"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(text: str, line: int, part: str) -> None:
    assert any(found == line and part in message for found, message in said(text)), said(text)


def test_all_bad_rows_are_named_at_once_but_not_thousands() -> None:
    bad = "pro,*,b{},token_bucket,no,10,,,\n"
    found = said(HEADER + "\n" + "".join(bad.format(n) for n in range(100)))
    assert [line for line, _ in found] == list(range(2, 22))
