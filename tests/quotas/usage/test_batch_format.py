"""Reading what the Lua layer wrote down, garbage included."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom_edge.keys import base36, endpoint_number, tenant_number
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.usage.batch_format import (
    ArrivalRecord,
    DenialRecord,
    UnreadableItems,
    parse_arrivals,
    parse_counters,
    parse_denials,
)

SECOND = 1_790_000_003


def field(second: int, series: CellSeries, kind: str = "s") -> bytes:
    limit = base36(series.limit) if series.limit else ""
    number = tenant_number(series.tenant) + endpoint_number(series.endpoint)
    return f"{kind}{second:08x}{number}{series.outcome}{limit}".encode()


def value(requests: int, cost: int) -> bytes:
    return str((cost << 24) + requests).encode()


def cells_of(*batches: dict[bytes, bytes]) -> list[Cell]:
    parsed = parse_counters(batches)
    assert not any(part.unreadable.count for part in parsed)
    return list(Cells.joined([part.cells for part in parsed]).summed(10).rows())


SERIES = st.builds(
    CellSeries,
    tenant=st.integers(0, 36**5 - 1),
    endpoint=st.integers(0, 36**3 - 1),
    outcome=st.sampled_from("adzpobuwnygc"),
    limit=st.integers(0, 36**5 - 1),
)


@given(SERIES)
def test_a_series_reads_as_it_was_written(series: CellSeries) -> None:
    (parsed,) = parse_counters([{field(SECOND, series): value(1, 1)}])
    assert list(parsed.cells.rows()) == [Cell(SECOND, series, 1, 1)]


def test_seconds_fall_into_steps_of_ten() -> None:
    series = CellSeries(7, 1, "a", 0)
    batch = {field(SECOND, series): value(3, 30), field(SECOND + 6, series): value(2, 2), b"id": b"x"}
    batch[field(SECOND + 7, series)] = value(1, 1)
    assert cells_of(batch) == [Cell(SECOND - 3, series, 5, 32), Cell(SECOND + 7, series, 1, 1)]


def test_batches_add_up() -> None:
    series = CellSeries(7, 1, "d", 9)
    batch = {field(SECOND, series): value(3, 30)}
    assert cells_of(batch, batch) == [Cell(SECOND - 3, series, 6, 60)]


def test_a_field_that_ends_in_plus_adds_to_the_same_cell() -> None:
    series, name = CellSeries(7, 1, "a", 0), field(SECOND, CellSeries(7, 1, "a", 0))
    batch = {name: str(2**63 - 1).encode(), name + b"+": value(1, 5), name + b"++": value(1, 7)}
    assert cells_of(batch) == [Cell(SECOND - 3, series, 2**24 - 1 + 2, 2**39 - 1 + 12)]


def test_sums_beyond_what_one_field_holds_do_not_mix_count_and_cost() -> None:
    series = CellSeries(7, 1, "a", 0)
    batch = {field(SECOND, series): value(2**24 - 1, 1)}
    assert cells_of(*[batch] * 3) == [Cell(SECOND - 3, series, 3 * (2**24 - 1), 3)]


def test_a_minute_is_laid_evenly_over_its_steps() -> None:
    series, minute = CellSeries(7, 1, "a", 0), SECOND - SECOND % 60
    cells = cells_of({field(minute, series, "m"): value(9, 20)})
    assert [cell.start for cell in cells] == list(range(minute, minute + 60, 10))
    assert [cell.requests for cell in cells] == [1, 1, 1, 2, 2, 2]
    assert sum(cell.cost for cell in cells) == 20


def test_a_lonely_request_of_a_minute_is_one_cell() -> None:
    cells = cells_of({field(SECOND, CellSeries(7, 1, "a", 0), "m"): value(1, 1)})
    assert [(cell.requests, cell.cost) for cell in cells] == [(1, 1)]


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("sm"), st.integers(0, 400), SERIES),
        st.tuples(st.integers(1, 2**24 - 1), st.integers(1, 2**39 - 1)),
        max_size=40,
    )
)
def test_nothing_is_lost_in_the_sum(counters: dict[tuple[str, int, CellSeries], tuple[int, int]]) -> None:
    expected: dict[CellSeries, tuple[int, int]] = defaultdict(lambda: (0, 0))
    batch = {}
    for (kind, offset, series), (requests, cost) in counters.items():
        batch[field(SECOND + offset, series, kind)] = value(requests, cost)
        before = expected[series]
        expected[series] = (before[0] + requests, before[1] + cost)
    found: dict[CellSeries, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for cell in cells_of(batch):
        before = found[cell.series]
        found[cell.series] = (before[0] + cell.requests, before[1] + cell.cost)
        assert cell.start % 10 == 0
    assert found == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"", b"1"),
        (b"s", b"1"),
        (b"s6ab13b8300007001", b"16777217"),
        (b"x6ab13b8300007001a", b"16777217"),
        (b"s6AB13B8300007001a", b"16777217"),
        (b"s6ab13b8300007001A", b"16777217"),
        (b"s6ab13b8300007001a123456", b"16777217"),
        (b"s6ab13b8300007001a\xff", b"16777217"),
        (b"s-ab13b8300007001a", b"16777217"),
        (b"s6ab13b8g00007001a", b"16777217"),
        (b"s6ab13b8300007001a\x00", b"16777217"),
        (b"s6ab13b8300007001a+1", b"16777217"),
        (b"s6ab13b8300007001a" + b"+" * 40, b"16777217"),
        (b"s6ab13b8300007001a", b""),
        (b"s6ab13b8300007001a", b"-5"),
        (b"s6ab13b8300007001a", b"0"),
        (b"s6ab13b8300007001a", b"1.5"),
        (b"s6ab13b8300007001a", b"nan"),
        (b"s6ab13b8300007001a", b"9" * 30),
        (b"s6ab13b8300007001a", b"9" * 10_000),
    ],
)
def test_garbage_is_counted_and_quoted_and_the_rest_is_kept(name: bytes, text: bytes) -> None:
    series = CellSeries(1, 1, "a", 0)
    good = {field(SECOND, series): value(2, 2)}
    before, mixed, after = parse_counters([good, {name: text, **good}, good])
    assert mixed.unreadable.count == 1
    assert mixed.unreadable.examples[0].startswith(name)
    assert list(mixed.cells.rows()) == [Cell(SECOND, series, 2, 2)]
    assert before.unreadable.count == after.unreadable.count == 0
    assert len(before.cells) == len(after.cells) == 1


@given(st.dictionaries(st.binary(max_size=30), st.binary(max_size=30)))
def test_no_bytes_stop_the_reading(batch: dict[bytes, bytes]) -> None:
    (parsed,) = parse_counters([batch])
    assert parsed.unreadable.count + len(parsed.cells) == len(batch.keys() - {b"id", b"_"})
    assert len(parsed.unreadable.examples) <= 5


def test_a_letter_of_a_newer_library_is_kept() -> None:
    assert cells_of({field(SECOND, CellSeries(1, 1, "q", 0)): value(1, 1)}) == [
        Cell(SECOND - 3, CellSeries(1, 1, "q", 0), 1, 1)
    ]


def test_arrivals_are_read_and_garbage_among_them_counted() -> None:
    unreadable = UnreadableItems()
    items = [b"00007001 ffffffffffffffff 1790000003123456 5 a", b"00007001 00000000000000ff 1 1 d", b"nonsense", b""]
    assert list(parse_arrivals(items, unreadable)) == [
        ArrivalRecord(7, 1, -1, 1_790_000_003_123_456, 5, True),
        ArrivalRecord(7, 1, 255, 1, 1, False),
    ]
    assert unreadable.count == 2


def test_denials_are_read_with_the_values_of_their_subject() -> None:
    unreadable = UnreadableItems()
    items = [
        b"1790000003123456 001 2s limit 5 250000 12 :001/key:k_77",
        b"1790000003123456 000 - suspended 1 -1 12 ",
        b"1790000003123456 001 2s limit 5 250000 12 0",
        b"1790000003123456 001 2s limit/pool 5 250000 12 0",
        b"1790000003123456 001 2s limit 5 250000",
        b"1790000003123456 001 2s limit/pool/x 5 250000 12 0",
    ]
    assert list(parse_denials(7, items, unreadable)) == [
        DenialRecord(7, 1, 1_790_000_003_123_456, 100, "limit", 5, 250_000, 12, b"k_77"),
        DenialRecord(7, 0, 1_790_000_003_123_456, 0, "suspended", 1, -1, 12, b""),
        DenialRecord(7, 1, 1_790_000_003_123_456, 100, "limit", 5, 250_000, 12, b""),
        DenialRecord(7, 1, 1_790_000_003_123_456, 100, "limit/pool", 5, 250_000, 12, b""),
    ]
    assert unreadable.count == 2
