"""`manage.py simulate`: one JSON object, or one line that says what is wrong and where."""

import csv
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

ROOT = Path(__file__).parents[3]
POLICIES = ROOT / "tests" / "quotas" / "policies" / "documents"
HEAD = "t_us,subject,cost\n"


@pytest.fixture
def arrivals(tmp_path: Path) -> Path:
    path = tmp_path / "arrivals.csv"
    path.write_text(HEAD + "1000000,a,1\n1000000,a,1\n1000000,b,5\n1500000,a,1\n2000000,a,1\n")
    return path


def simulate(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    call_command("simulate", *words)
    return capsys.readouterr().out


def refused(*words: str) -> str:
    with pytest.raises(CommandError) as caught:
        call_command("simulate", *words)
    assert caught.value.returncode == 2
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_it_prints_one_json_object(capsys: pytest.CaptureFixture[str], arrivals: Path) -> None:
    words = ("--algorithm", "fixed_window", "--params", '{"limit": 2, "window": "1s"}', "--arrivals", str(arrivals))
    assert json.loads(simulate(capsys, *words)) == {"allowed": 3, "denied": 2, "max_wait_ms": 0}
    assert json.loads(simulate(capsys, *words, "--decisions"))["decisions"] == [1, 1, 0, 0, 1]


def test_a_leaky_bucket_tells_its_longest_wait_rounded_up(capsys: pytest.CaptureFixture[str], arrivals: Path) -> None:
    params = '{"rate": 3000, "queue": 10}'
    words = ("--algorithm", "leaky_bucket", "--params", params, "--arrivals", str(arrivals))
    assert json.loads(simulate(capsys, *words)) == {"allowed": 5, "denied": 0, "max_wait_ms": 1}


def test_a_slot_is_free_again_after_the_duration_of_its_holder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text("t_us,subject,cost,duration_us\n0,a,1,100\n50,a,1,100\n100,a,1,\n199,a,1,5\n60000100,a,1,5\n")
    words = ("--algorithm", "concurrency", "--params", '{"limit": 1, "hold": "1m"}', "--arrivals", str(path))
    for engine in ("reference", "lua"):
        found = json.loads(simulate(capsys, *words, "--decisions", "--engine", engine))
        assert found["decisions"] == [1, 0, 1, 0, 1]


EVERY_ALGORITHM = {
    "token_bucket": {"rate": 7, "per": "1s", "burst": 9, "max_wait": "150ms"},
    "gcra": {"rate": 7, "per": "1s", "burst": 3},
    "leaky_bucket": {"rate": 7, "per": "1s", "queue": 5},
    "fixed_window": {"limit": 12, "window": "1s"},
    "sliding_log": {"limit": 12, "window": "1s"},
    "sliding_counter": {"limit": 12, "window": "1s"},
    "concurrency": {"limit": 2, "hold": "1s"},
    "calendar_quota": {"limit": 60, "period": "month", "anchor": 31, "timezone": "Asia/Kolkata"},
}


def write_random_arrivals(path: Path, month: bool) -> None:
    draw, t_us = random.Random(7), 1_772_409_600_000_000
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("t_us", "subject", "cost", "duration_us"))
        for _ in range(1_500):
            t_us += draw.choice((0, 1, 40_000, 90_000, 300_000)) * (100_000 if month else 1)
            writer.writerow((t_us, draw.choice("abc"), draw.choice((1, 1, 1, 2, 5)), draw.randrange(600_000)))


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
def test_both_engines_take_the_same_decisions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, algorithm: str
) -> None:
    path = tmp_path / "arrivals.csv"
    write_random_arrivals(path, month=algorithm == "calendar_quota")
    params = json.dumps(EVERY_ALGORITHM[algorithm])
    words = ("--algorithm", algorithm, "--params", params, "--arrivals", str(path), "--decisions")
    found = [json.loads(simulate(capsys, *words, "--engine", engine)) for engine in ("reference", "lua")]
    assert found[0] == found[1]
    assert found[0]["allowed"] > 100
    assert found[0]["denied"] > 100


def test_a_policy_prints_what_each_limit_denied(capsys: pytest.CaptureFixture[str], arrivals: Path) -> None:
    policy = str(POLICIES / "valid" / "every-algorithm.yaml")
    text = simulate(capsys, "--policy", policy, "--policy-name", "pro-everywhere", "--arrivals", str(arrivals))
    assert "4 allowed, 1 denied, longest wait 1 ms" in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("paced")] == ["1"]


def test_scenarios_are_listed_and_run_on_both_engines(capsys: pytest.CaptureFixture[str]) -> None:
    assert "GCRA equals a token bucket" in simulate(capsys, "--scenario", "list")
    for engine in ("reference", "lua"):
        assert simulate(capsys, "--scenario", "2", "--engine", engine).count("as expected") == 2


FIXED = ("--algorithm", "fixed_window", "--params", '{"limit": 2, "window": "1s"}')


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "line 1: column t_us is missing; the first line must be t_us,subject,cost"),
        ("t_us,subject\n", "line 1: column cost is missing; the first line must be t_us,subject,cost"),
        ("t_us,subject,cost,x\n", "line 1: unknown column 'x'; the columns are t_us, subject, cost and"),
        ("t_us,subject,cost,cost\n", "line 1: column cost appears twice"),
        (HEAD + "1,a\n", "line 2: 2 fields, but the first line names 3"),
        (HEAD + "1,a,1\n\n", "line 3: 0 fields, but the first line names 3"),
        (HEAD + "5,a,1\n4,a,1\n", "line 3: t_us 4 is before the line above; sort the file by t_us"),
        (HEAD + "1,a,0\n", "line 2: cost must be a whole number from 1 to 1000000000, not '0'"),
        (HEAD + "1,a,1.5\n", "line 2: cost must be"),
        (HEAD + "1,a,nan\n", "line 2: cost must be"),
        (HEAD + "1,a,0x10\n", "line 2: cost must be"),
        (HEAD + "1,a,\u0661\n", "line 2: cost must be"),
        (HEAD + "-1,a,1\n", "line 2: t_us must be a whole number from 0 to 4503599627370496, not '-1'"),
        (HEAD + "99999999999999999999,a,1\n", "line 2: t_us must be"),
        (HEAD + '1,"a,1\n', "line 2: this is not CSV"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, lines: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(lines)
    assert refused(*FIXED, "--arrivals", str(path)).startswith(f"{path}: {message}")


def test_the_store_is_asked_nothing_of_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(HEAD + "1,a,1\n2,a,nan\n")
    message = refused(*FIXED, "--arrivals", str(path), "--engine", "lua")
    assert message == f"{path}: line 3: cost must be a whole number from 1 to 1000000000, not 'nan'"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert "none.csv: there is no such file; correct" in refused(*FIXED, "--arrivals", str(tmp_path / "none.csv"))
    assert refused(*FIXED, "--arrivals", str(tmp_path)).endswith(": Is a directory")
    (tmp_path / "binary.csv").write_bytes(HEAD.encode() + b"1,\xff\xfe,1\n")
    assert "this is not UTF-8 text" in refused(*FIXED, "--arrivals", str(tmp_path / "binary.csv"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give one of --algorithm, --policy and --scenario"),
        (("--algorithm", "gcra", "--scenario", "1"), "give one of --algorithm, --policy and --scenario"),
        (("--algorithm", "gcra", "--params", '{"rate": 1}'), "--arrivals is missing; name a CSV file"),
        (("--algorithm", "gcra", "--params", "{rate: 1}"), "--params is not JSON"),
        (("--algorithm", "gcra", "--params", "[1]"), "--params must be a JSON object"),
        (("--algorithm", "gcra", "--params", "{}"), "--params: rate is missing; give a number above 0"),
        (("--algorithm", "gcra", "--params", '{"rate": 1, "brust": 2}'), "--params: brust is not a field of gcra; did"),
        (("--algorithm", "crystal_ball"), "--algorithm: algorithm cannot be 'crystal_ball'; use one of token_bucket"),
        (("--scenario", "99"), "--scenario cannot be '99'; use list, all, or one of 1, 2, 3"),
        (("--scenario", "1", "--engine", "abacus"), "--engine cannot be 'abacus'; use reference or lua"),
        (("--policy", "no.yaml"), "no.yaml: there is no such file; correct the name or the folder"),
    ],
)
def test_bad_options_are_refused_in_one_line(words: tuple[str, ...], message: str) -> None:
    assert refused(*words).startswith(message)


def test_a_bad_policy_file_is_refused_with_its_line(arrivals: Path) -> None:
    bad = POLICIES / "invalid" / "sliding-log-above-10000.yaml"
    expected = bad.read_text().splitlines()[0].removeprefix("# ")
    assert refused("--policy", str(bad), "--arrivals", str(arrivals)) == f"{bad}: {expected}"
    owners = POLICIES / "valid" / "owners.yaml"
    assert "--policy-name must be one of tier-payments," in refused("--policy", str(owners))


def run_process(*words: str) -> subprocess.CompletedProcess[str]:
    command: list[Any] = [sys.executable, ROOT / "manage.py", "simulate", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_the_process_exits_with_2_and_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(HEAD + "1,a,-5\n")
    process = run_process(*FIXED, "--arrivals", str(path))
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.count("\n") == 1
    assert "line 2: cost must be a whole number" in process.stderr
