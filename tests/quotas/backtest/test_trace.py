"""Reading a trace: any order of columns, plain or gzipped, bad rows counted by line."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from quotas.backtest import spool as spooling
from quotas.backtest import trace as tracing
from quotas.backtest.spool import Spool
from quotas.backtest.trace import BadRow, SeriesName, TraceError, TraceReader

HEAD = "timestamp,tenant,endpoint,subject,cost\n"


def read(path: Path, most_bad: int = 10) -> tuple[TraceReader, list[tuple[int, int, int]]]:
    """The reader and its rows of time, series and cost."""
    reader = TraceReader(path, most_bad)
    rows: list[tuple[int, int, int]] = []
    for chunk in reader.chunks():
        costs = np.ones_like(chunk.times_us) if chunk.costs is None else chunk.costs
        rows += zip(chunk.times_us.tolist(), chunk.series.tolist(), costs.tolist(), strict=True)
    return reader, rows


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz", "gzipped-but-named.csv.gz"])
def test_it_reads_plain_and_gzipped_files(tmp_path: Path, name: str) -> None:
    reader, rows = read(written(tmp_path, HEAD + "0.5,a,e,s,2\n1.25,b,e,s,1\n2,a,e,s,3\n", name))
    assert rows == [(500_000, 0, 2), (1_250_000, 1, 1), (2_000_000, 0, 3)]
    assert reader.series() == [SeriesName("a", "e"), SeriesName("b", "e")]
    assert (reader.rows, reader.bad_rows) == (3, 0)


def test_only_timestamp_and_tenant_are_needed_in_any_order(tmp_path: Path) -> None:
    reader, rows = read(written(tmp_path, "tenant,note,timestamp\na,x,1\nb,y,2\n"))
    assert rows == [(1_000_000, 0, 1), (2_000_000, 1, 1)]
    assert reader.series() == [SeriesName("a", ""), SeriesName("b", "")]


def test_microseconds_of_today_are_kept(tmp_path: Path) -> None:
    _, rows = read(written(tmp_path, "timestamp,tenant\n1772409600.123457,a\n"))
    assert rows == [(1_772_409_600_123_457, 0, 1)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("x,a,e,s,1", "timestamp must be seconds from 0 to 4503599627, not 'x'"),
        ("nan,a,e,s,1", "timestamp must be"),
        ("-1,a,e,s,1", "timestamp must be"),
        ("1e300,a,e,s,1", "timestamp must be"),
        ("1,,e,s,1", "tenant must be a name, not ''"),
        ("1,a,e,s,0", "cost must be a whole number from 1 to 1000000000, not '0'"),
        ("1,a,e,s,1.5", "cost must be"),
        ("1,a,e,s,", "cost must be"),
        ("1,a,e,s,99999999999999999999999", "cost must be"),
        ("1,a,e", "3 fields, but the first line names 5"),
        ("", "0 fields, but the first line names 5"),
    ],
)
def test_a_bad_row_is_counted_with_its_line_and_passed_over(tmp_path: Path, row: str, reason: str) -> None:
    reader, rows = read(written(tmp_path, HEAD + f"1,a,e,s,1\n{row}\n3,b,e,s,1\n"))
    assert [number for _, number, _ in rows] == [0, 1]
    assert [bad.line for bad in reader.bad] == [3]
    assert reader.bad[0].reason.startswith(reason)
    assert reader.series() == [SeriesName("a", "e"), SeriesName("b", "e")]


def test_a_tenant_that_is_not_text_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"timestamp,tenant\n1,\xff\xfe\n2,b\n")
    reader, rows = read(path)
    assert (len(rows), [bad.line for bad in reader.bad]) == (1, [2])


def test_lines_are_counted_through_quoted_line_ends(tmp_path: Path) -> None:
    reader, _ = read(written(tmp_path, 'timestamp,tenant\n1,"two\nlines"\nx,b\n'))
    assert reader.bad == [BadRow(4, "timestamp must be seconds from 0 to 4503599627, not 'x'")]


def test_a_field_too_long_for_csv_is_a_bad_row(tmp_path: Path) -> None:
    reader, rows = read(written(tmp_path, f"timestamp,tenant\n1,a\n2,{'x' * 200_000}\n3,b\n"))
    assert (len(rows), reader.bad_rows) == (2, 1)


def test_too_many_bad_rows_refuse_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + "x,a,e,s,1\n" * 11)
    with pytest.raises(TraceError, match=r"more than 10 bad rows, the last in line 12: timestamp .*; correct the file"):
        read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: column timestamp is missing"),
        ("timestamp,who\n1,a\n", "line 1: column tenant is missing"),
        ("timestamp,tenant,tenant\n", "line 1: column tenant appears twice"),
    ],
)
def test_a_wrong_first_line_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read(written(tmp_path, text))


def test_a_file_that_is_missing_or_damaged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no such file"):
        read(tmp_path / "none.csv")
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(("timestamp,tenant\n" + "1,a\n" * 50_000).encode())[:-40])
    with pytest.raises(TraceError, match="ends early or is damaged"):
        read(path)


def test_too_many_series_refuse_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MOST_SERIES", 2)
    with pytest.raises(TraceError, match="more than 2 pairs"):
        read(written(tmp_path, "timestamp,tenant\n1,a\n1,b\n1,c\n"))


def spooled(path: Path, spool: Spool) -> None:
    for chunk in TraceReader(path, 0).chunks():
        spool.add(chunk)
    spool.seal()


def test_a_series_comes_back_in_order_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "CHUNK_ROWS", 3)
    rows = [(5, "a"), (3, "b"), (1, "a"), (2, "a"), (9, "b"), (4, "a"), (0, "a")]
    path = written(tmp_path, "timestamp,tenant\n" + "".join(f"{time},{tenant}\n" for time, tenant in rows))
    with Spool(str(tmp_path)) as spool:
        spooled(path, spool)
        found = [np.concatenate([piece.times_us for piece in spool.series(n)]).tolist() for n in range(2)]
        assert found == [[second * 1_000_000 for second in seconds] for seconds in ([0, 1, 2, 4, 5], [3, 9])]
        assert (len(spool), spool.first_us, spool.last_us) == (7, 0, 9_000_000)
    assert list(tmp_path.iterdir()) == [path]


def test_subjects_and_costs_stay_with_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "CHUNK_ROWS", 2)
    path = written(tmp_path, "timestamp,tenant,subject,cost\n3,a,x,3\n2,a,y,2\n1,a,x,1\n")
    with Spool() as spool:
        spooled(path, spool)
        (piece,) = spool.series(0)
        assert piece.costs.tolist() == [1, 2, 3]
        assert piece.subjects[0] == piece.subjects[2] != piece.subjects[1]


def test_a_file_in_order_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "CHUNK_ROWS", 2)
    path = written(tmp_path, "timestamp,tenant\n" + "".join(f"{n},a\n" for n in range(6)))
    with Spool() as spool:
        spooled(path, spool)
        assert [len(piece) for piece in spool.series(0)] == [2, 2, 2]


def test_rows_far_out_of_order_are_refused_when_memory_would_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "CHUNK_ROWS", 2)
    monkeypatch.setattr(spooling, "MOST_OUT_OF_ORDER", 3)
    path = written(tmp_path, "timestamp,tenant\n" + "".join(f"{9 - n},a\n" for n in range(6)))
    with Spool() as spool:
        spooled(path, spool)
        with pytest.raises(TraceError, match="sort the file by timestamp"):
            list(spool.series(0))
