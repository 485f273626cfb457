"""docs/performance.md has the table that `python -m benchmarks peers` prints."""

from __future__ import annotations

import re

import pytest

from benchmarks import peers
from benchmarks.contestants import builds, http, in_memory, libraries, nginx, rate_limit_service, table
from config.data_folders import ROOT

PAGE = (ROOT / "docs" / "performance.md").read_text()


def test_the_table_has_the_columns_that_the_benchmark_prints() -> None:
    assert "\n".join(table.HEAD) in PAGE


@pytest.mark.parametrize(
    "lacks",
    [http.LACKS, rate_limit_service.LACKS, nginx.LACKS, libraries.LACKS, in_memory.LACKS, in_memory.LACKS_LEASED],
)
def test_the_table_says_what_each_does_not_do(lacks: str) -> None:
    assert f"| {lacks} |" in PAGE


def test_every_peer_is_in_the_table_or_left_out_with_a_reason() -> None:
    titles = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE, re.MULTILINE)
    left_out = re.findall(r"^- Left out: (.+?)\. \S", PAGE, re.MULTILINE)
    assert len(titles) == len(peers.COMPARISONS)
    assert left_out == [f"gubernator {builds.GUBERNATOR}", "limitador-server"]
