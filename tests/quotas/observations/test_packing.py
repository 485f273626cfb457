"""Packed columns come back as they were, and stay small."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.observations.packing import pack, unpack
from quotas.observations.seconds import Seconds

ROWS = st.lists(st.tuples(*[st.integers(-(2**62), 2**62)] * 3), max_size=60)
SECOND = st.tuples(
    st.integers(1_790_000_000, 1_790_090_000), st.sampled_from([1, 60]), *[st.integers(0, 2**40)] * 4
)  # fmt: skip


@given(ROWS)
def test_columns_come_back(rows: list[tuple[int, int, int]]) -> None:
    columns = list(np.array(rows, np.int64).reshape(-1, 3).T)
    assert [column.tolist() for column in unpack(pack(columns))] == [column.tolist() for column in columns]


@given(st.lists(SECOND, max_size=40))
def test_seconds_come_back_and_add_up(rows: list[tuple[int, ...]]) -> None:
    columns = np.array(rows, np.int64).reshape(-1, 6).T
    seconds = Seconds.summed([Seconds(*columns)])
    again = Seconds.unpack(seconds.pack())
    assert [column.tolist() for column in again.columns] == [column.tolist() for column in seconds.columns]
    assert seconds.offered_cost.sum() == columns[4].sum() + columns[5].sum()
    twice = Seconds.summed([seconds, again])
    assert twice.starts_s.tolist() == seconds.starts_s.tolist()
    assert (twice.allowed == 2 * seconds.allowed).all()


def test_a_busy_hour_of_seconds_takes_little_room() -> None:
    draw = np.random.default_rng(1)
    counts = draw.poisson(5, 3_600)
    starts, none = np.arange(3_600), np.zeros(3_600, np.int64)
    packed = Seconds(1_790_000_000 + starts, none + 1, counts, none, counts, none).pack()
    assert len(packed) < 2_000


def test_cells_come_back() -> None:
    rows = [Cell(1_790_000_000 + i, CellSeries(i % 3, 2, "ad"[i % 2], i % 5), i + 1, 3 * i) for i in range(50)]
    assert sorted(Cells.unpack(Cells.of(rows).pack()).rows()) == rows
    assert len(Cells.unpack(Cells.of(()).pack())) == 0
