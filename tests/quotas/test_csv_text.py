from __future__ import annotations

import csv
import io

import pytest

from quotas.csv_text import csv_lines


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@cmd", "\tx", "\rx"])
def test_a_cell_that_a_spreadsheet_would_run_is_neutralised(text: str) -> None:
    rows = list(csv.reader(io.StringIO("".join(csv_lines(["name"], [[text]])), newline="")))
    assert rows == [["name"], ["'" + text]]


def test_numbers_and_plain_text_stay_as_they_are() -> None:
    assert list(csv_lines(["name", "n"], [["a, b", -3], ["c", None]])) == ["name,n\r\n", '"a, b",-3\r\n', "c,\r\n"]
