"""`manage.py backtest` and `manage.py trace_expand`, from the command line's side."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import OutputWrapper

from quotas.management.progress_bar import ProgressBar

RATES = "model,client,t,rate,cv,family,shape,scale\n"


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    """Two clients over half a day in windows of 600 s."""
    lines = [
        f"m,{client},{window * 600},{rate},1.5,Gamma,0.44,9\n"
        for client, rate in (("1", 0.05), ("2", 0.2))
        for window in range(72)
    ]
    path = tmp_path / "rates.csv.gz"
    path.write_bytes(gzip.compress((RATES + "".join(lines)).encode()))
    return path


def expand(rates: Path, output: Path, *words: str) -> list[tuple[float, str]]:
    call_command("trace_expand", str(rates), str(output), *words)
    raw = output.read_bytes()
    head, *lines = (gzip.decompress(raw) if output.suffix == ".gz" else raw).decode().splitlines()
    assert head == "timestamp,tenant"
    return [(float(time), tenant) for time, tenant in (line.split(",") for line in lines)]


def refused(*words: str) -> str:
    with pytest.raises(CommandError) as caught:
        call_command(*words)
    assert caught.value.returncode == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_expanding_gives_each_window_its_rate(rates: Path, tmp_path: Path) -> None:
    rows = expand(rates, tmp_path / "out.csv.gz")
    assert rows == sorted(rows)
    for tenant, rate in (("m-1", 0.05), ("m-2", 0.2)):
        assert sum(name == tenant for _, name in rows) == pytest.approx(rate * 43_200, abs=72)


def test_the_same_seed_gives_the_same_file(rates: Path, tmp_path: Path) -> None:
    first = expand(rates, tmp_path / "a.csv", "--seed", "7")
    assert first == expand(rates, tmp_path / "b.csv", "--seed", "7")
    assert first != expand(rates, tmp_path / "c.csv", "--seed", "8")


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (("--scale", "0.1"), 1_080),
        (("--most-rows", "500"), 1_000),
        (("--every", "4"), 2_700),
        (("--days", "0.25"), 5_400),
    ],
)
def test_thinning(rates: Path, tmp_path: Path, words: tuple[str, ...], rows: int) -> None:
    assert len(expand(rates, tmp_path / "out.csv", *words)) == pytest.approx(rows, abs=120)


def test_idle_windows_and_missing_families_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(RATES + "m,1,0,0,0,,,\nm,1,600,0.5,1,,,\nm,1,1200,0.5,0.5,Weibull,2.1,2\n")
    assert len(expand(path, tmp_path / "out.csv")) == 600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,client,t\n", "line 1: column rate is missing"),
        (RATES + "m,1,0,x,1,Gamma,1,1\n", "line 2: t, rate, cv and shape must be numbers"),
        (RATES + "m,1,0,-1,1,Gamma,1,1\n", "line 2: t, rate and cv must not be below 0"),
        (RATES + "m,1,0,1,1,Cauchy,1,1\n", "line 2: family must be Gamma, Weibull or empty, not 'Cauchy'"),
    ],
)
def test_wrong_rates_are_refused_and_nothing_is_left_behind(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(text)
    assert message in refused("trace_expand", str(path), str(tmp_path / "out.csv"))
    assert list(tmp_path.iterdir()) == [path]


def test_paths_and_numbers_that_cannot_work_are_refused(rates: Path, tmp_path: Path) -> None:
    assert "there is no such file" in refused("trace_expand", str(tmp_path / "none.csv"), str(tmp_path / "out.csv"))
    assert "cannot be written" in refused("trace_expand", str(rates), str(tmp_path / "none" / "out.csv"))
    assert refused("trace_expand", str(rates), str(tmp_path / "o.csv"), "--every", "0") == "--every must be above 0."
    assert refused("backtest", "--trace", "x", "--train-days", "-1") == "--train-days must be above 0, not -1."
    assert "there is no such file" in refused("backtest", "--trace", str(tmp_path / "none.csv"))


def test_backtest_prints_one_json_object(rates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.csv"
    expand(rates, trace)
    with trace.open("a") as file:
        file.write("soon,m-1\n")
    capsys.readouterr()
    call_command("backtest", "--trace", str(trace), "--train-days", "0.25", "--json")
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["bad_rows"] == 1
    assert found["bad"][0]["line"] == found["rows"] + 2
    assert "soon" in err
    assert set(found["rules"]) == {
        "recommender",
        "max_x1.15",
        "p99_x1.15",
        "vpa_p90_24h_x1.15",
        "cloudflare_p99_of_subject_maxima",
    }
    for score in found["rules"].values():
        assert set(score) == {"rejected", "tenants_hit", "p90_tenant", "headroom", "changes"}
    assert "replaying 100%" in err


def test_backtest_prints_tables(rates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.csv"
    expand(rates, trace)
    call_command("backtest", "--trace", str(trace))
    out = capsys.readouterr().out
    assert "arrivals of 2 tenants; fitted on 0.25 days, replayed 0.25" in out
    assert "The rules of thumb at the recommender's headroom" in out


def test_a_bad_trace_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("timestamp,tenant\n" + "x,a\n" * 9)
    words = ("backtest", "--trace", str(path), "--bad-rows", "3")
    assert "more than 3 bad rows, the last in line 5" in refused(*words)


def test_progress_is_shown_from_the_first_percent() -> None:
    stream = io.StringIO()
    bar = ProgressBar(OutputWrapper(stream))
    for done in range(1_001):
        bar.show("fitting", done, 1_000)
    assert stream.getvalue().split("fitting ")[1:] == [f"{mark}%\n" for mark in (0, 1, *range(10, 101, 10))]
