"""`manage.py simulate`: one JSON object, or one line that says what is wrong and where."""

import csv
import json
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from quotas.management.commands.simulate import check_agreement
from quotas.policies.document import Document, read_document
from quotas.policies.limit_codec import limit_parse
from quotas.simulation.arrivals_csv import Arrival
from quotas.simulation.policy_replay import PolicyWorld, ReferenceReplay, on_store
from quotas.simulation.policy_report import Comparison, comparison_tables, side_by_side
from quotas.simulation.sandbox import Sandbox
from tests.sweeps import first_of

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
    "adaptive_concurrency": {"min": 1, "max": 4, "start": 2, "target": "300ms", "hold": "1s"},
    "pool": {"rate": 7, "per": "1s", "burst": 9, "reserve": 2},
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


# `tests/headroom_edge/lua/test_agreement.py` compares all of them; the second here counts in months.
@pytest.mark.parametrize("algorithm", [*first_of(list(EVERY_ALGORITHM)[:-1]), "calendar_quota"])
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
    assert next(line.split()[-2:] for line in text.splitlines() if line.startswith("paced")) == ["1", "1"]
    assert "reference and lua agree on 5 decisions." in text


SHARING = """
tiers: [{name: pro}]
endpoints:
  - {name: payments:charge, method: POST, path: /charges, priority: critical}
  - {name: payments:report, method: GET, path: /reports, priority: sheddable}
policies:
  - name: sharing
    tier: pro
    endpoint: "*"
    limits:
      - {name: org, algorithm: pool, rate: 100, burst: 50, reserve: 30, unit: cost}
      - {name: team, algorithm: borrowing, assured: 20, burst: 10, ceiling: 80, ceiling_burst: 20, reserve: 5,
         parent: org, subject: team, unit: cost}
      - {name: key, algorithm: borrowing, assured: 5, burst: 4, ceiling: 50, parent: team, weight: 1, subject: team+key,
         unit: cost}
"""


@pytest.fixture
def sharing(tmp_path: Path) -> str:
    path = tmp_path / "sharing.yaml"
    path.write_text(SHARING)
    return str(path)


def write_shared_arrivals(path: Path, *, count: int = 1_500, head: str = "t_us,cost,team,key") -> None:
    """At about four times the pool's rate, two of three for team a."""
    draw, t_us = random.Random(18), 1_772_409_600_000_000
    values: dict[str, tuple[str, ...]] = {
        "cost": ("1", "1", "3"),
        "team": ("a", "a", "b"),
        "key": ("x", "x", "y"),
        "tenant": ("acme", "bolt"),
        "endpoint": ("payments:charge", "payments:report", "rides:list"),
        "priority": ("", "", "sheddable", "critical"),
    }
    lines = [head]
    for _ in range(count):
        t_us += draw.randrange(8_000)
        lines.append(",".join(str(t_us) if name == "t_us" else draw.choice(values[name]) for name in head.split(",")))
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("head", first_of(["team,t_us,key,cost,tenant,endpoint,priority", "t_us,cost,team,key"]))
def test_a_pool_has_the_same_decisions_on_both_engines_and_says_who_lent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sharing: str, head: str
) -> None:
    path = tmp_path / "arrivals.csv"
    write_shared_arrivals(path, head=head)
    text = simulate(capsys, "--policy", sharing, "--arrivals", str(path))
    assert "reference and lua agree on 1,500 decisions." in text
    assert "denied: share" in text
    assert "EXCEEDED" not in text
    (teams,) = [line.split() for line in text.splitlines() if line.startswith("team  asked")]
    assert teams[2:6] == ["own", "from", "org", "from"]
    rows = {row[0]: row for row in (line.split() for line in text.splitlines()) if row and row[0] in ("a", "b")}
    assert all(int(number.replace(",", "")) > 0 for row in rows.values() for number in row[1:5])
    assert len([line for line in text.splitlines() if line.startswith("org ") and line.endswith("kept")]) == 2


def test_one_engine_alone_needs_no_store(capsys: pytest.CaptureFixture[str], tmp_path: Path, sharing: str) -> None:
    path = tmp_path / "arrivals.csv"
    write_shared_arrivals(path)
    text = simulate(capsys, "--policy", sharing, "--arrivals", str(path), "--engine", "reference")
    assert "agree" not in text
    assert "denied (" not in text


def test_the_endpoint_column_gives_each_request_its_priority(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    policy, path = tmp_path / "pool.yaml", tmp_path / "arrivals.csv"
    policy.write_text(
        SHARING.partition("policies:")[0]
        + "policies: [{name: p, tier: pro, endpoint: '*', limits: [{name: org, algorithm: pool, rate: 10, burst: 10}]}]"
    )
    ask = "1772409600000000,1,{}\n"
    path.write_text("t_us,cost,endpoint\n" + ask.format("payments:report") * 6 + ask.format("payments:charge") * 6)
    text = simulate(capsys, "--policy", str(policy), "--arrivals", str(path))
    # Sheddable requests may fill half of the pool, critical ones all of it.
    assert "10 allowed, 2 denied" in text
    path.write_text("t_us,cost,endpoint,priority\n" + ask.format("payments:charge,sheddable") * 12)
    assert "5 allowed, 7 denied" in simulate(capsys, "--policy", str(policy), "--arrivals", str(path))


def test_tenants_share_a_global_pool(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    policy, path = tmp_path / "global.yaml", tmp_path / "arrivals.csv"
    policy.write_text("""
policies:
  - {name: everybody, endpoint: "*", limits: [{name: pool, algorithm: pool, rate: 100, burst: 40, reserve: 20}]}
  - {name: pro, tier: pro, endpoint: "*", limits: [{name: share, algorithm: borrowing, assured: 10, parent: pool}]}
  - {name: acme, tenant: acme, endpoint: "*", limits: [{name: share, algorithm: borrowing, assured: 40, parent: pool}]}
""")
    write_shared_arrivals(path, head="t_us,cost,tenant")
    text = simulate(capsys, "--policy", str(policy), "--arrivals", str(path))
    assert "reference and lua agree on 1,500 decisions." in text
    own = {row[0]: int(row[2]) for row in map(str.split, text.splitlines()) if row and row[0] in ("acme", "bolt")}
    assert own["acme"] > 2 * own["bolt"] > 0


def test_adaptive_concurrency_follows_the_durations_on_both_engines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    policy, path = tmp_path / "adaptive.yaml", tmp_path / "arrivals.csv"
    limit = "{name: flight, algorithm: adaptive_concurrency, min: 2, max: 40, start: 20, target: 50ms, hold: 5s}"
    policy.write_text(f'policies: [{{name: p, tier: pro, endpoint: "*", limits: [{limit}]}}]')
    lines = [f"{1_772_409_600_000_000 + n * 2_000},1,{200_000 if n > 1_000 else 20_000}" for n in range(2_000)]
    path.write_text("t_us,cost,duration_us\n" + "\n".join(lines) + "\n")
    text = simulate(capsys, "--policy", str(policy), "--arrivals", str(path))
    assert "reference and lua agree on 2,000 decisions." in text
    denied = int(text.split(" allowed, ")[1].partition(" denied")[0].replace(",", ""))
    assert denied > 100


def test_a_difference_between_the_engines_ends_with_an_error() -> None:
    """The engines agree, so here the store has another pool than the reference."""
    document = read_document(SHARING)
    assert isinstance(document, Document)
    world = PolicyWorld.of(document.policies).visited_by(())
    (policy,) = world.policies
    pool = limit_parse("org", {"algorithm": "pool", "rate": 50, "burst": 30, "unit": "cost"})
    other = replace(world, policies=(replace(policy, limits=(pool, *policy.limits[1:])),))
    found = Comparison.of(world, ("reference", "lua"))
    arrivals = (Arrival(1_772_409_600_000_000 + n, dimensions={"team": str(n % 5), "key": "x"}) for n in range(200))
    with Sandbox() as sandbox:
        for step, decisions in side_by_side(on_store(sandbox, other, ReferenceReplay(world).steps(arrivals))):
            found.add(step, decisions)
    text = "\n".join(comparison_tables(world, found))
    assert re.search(r"request \d+ \(t_us \d+\): reference denied by key \(pool\), lua allowed, lent by org", text)
    assert re.search(r"\d+ / \d+", text)
    with pytest.raises(CommandError, match=r"The engines differ in [0-9]+ of 200 decisions") as caught:
        check_agreement(found)
    assert caught.value.returncode == 1


def test_long_files_show_their_progress(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    policy, path = tmp_path / "one.yaml", tmp_path / "arrivals.csv"
    policy.write_text("policies: [{name: p, tier: pro, endpoint: '*', limits: [{name: b, algorithm: gcra, rate: 5}]}]")
    write_shared_arrivals(path, count=20_000, head="t_us,cost,tenant")
    call_command("simulate", "--policy", str(policy), "--arrivals", str(path), "--engine", "reference")
    told = capsys.readouterr()
    assert "replaying 50%" in told.err
    assert "20,000" not in told.err


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


DIMENSIONS = "t_us,cost,team,key\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "t_us,cost,tema,key\n",
            "line 1: unknown column 'tema'; the columns are t_us, cost, key, team, tenant, endpoint",
        ),
        ("t_us,cost,team\n", "line 1: column key is missing; a limit counts by team+key"),
        ("t_us,team,key\n", "line 1: column cost is missing; the first line must be t_us,cost"),
        ("t_us,cost,team,key,key\n", "line 1: column key appears twice"),
        ("t_us,subject,cost,team\n", "line 1: unknown column 'team'; the columns are t_us, subject, cost, tenant"),
        (DIMENSIONS + "5,1,a,x\n4,1,a,x\n", "line 3: t_us 4 is before the line above; sort the file by t_us"),
        (DIMENSIONS + "5,0,a,x\n", "line 2: cost must be a whole number from 1 to"),
        (DIMENSIONS + "5,1,a\n", "line 2: 3 fields, but the first line names 4"),
        (DIMENSIONS + f"5,1,{'a' * 300},x\n", "line 2: team is longer than 256 characters; shorten it"),
        (f"{DIMENSIONS.strip()},tenant\n5,1,a,x,No One\n", "line 2: tenant must be the name of a tenant, such as acme"),
        (f"{DIMENSIONS.strip()},endpoint\n5,1,a,x,pay\n", "line 2: endpoint must be the name of an endpoint, such as"),
        (f"{DIMENSIONS.strip()},priority\n5,1,a,x,urgent\n", "line 2: priority must be one of critical, high, normal"),
    ],
)
def test_a_bad_file_of_dimensions_is_refused_with_its_line(
    tmp_path: Path, sharing: str, lines: str, message: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(lines)
    assert refused("--policy", sharing, "--arrivals", str(path)).startswith(f"{path}: {message}")


def test_a_chain_that_cannot_be_judged_is_refused_in_one_sentence(tmp_path: Path, arrivals: Path) -> None:
    path = tmp_path / "orphan.yaml"
    limit = "{name: key, algorithm: borrowing, assured: 1, parent: nobody, subject: key}"
    path.write_text(f'policies: [{{name: p, tier: pro, endpoint: "*", limits: [{limit}]}}]')
    for engine in ((), ("--engine", "reference")):
        message = refused("--policy", str(path), "--arrivals", str(arrivals), *engine)
        assert "borrows from nobody, but no limit nobody is switched on" in message
    params = '{"assured": 5, "parent": "pool"}'
    assert "borrows from pool" in refused("--algorithm", "borrowing", "--params", params, "--arrivals", str(arrivals))


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
    owners = ("--policy", str(POLICIES / "valid" / "owners.yaml"), "--arrivals", str(arrivals))
    assert "--policy-name must be one of tier-payments," in refused(*owners, "--policy-name", "tier")


def test_policies_of_two_tiers_need_a_name(tmp_path: Path, arrivals: Path) -> None:
    path = tmp_path / "tiers.yaml"
    row = '{name: %s, tier: %s, endpoint: "*", limits: [{name: burst, algorithm: gcra, rate: 5}]}'
    path.write_text(f"policies:\n  - {row % ('one', 'free')}\n  - {row % ('two', 'pro')}\n")
    expected = "its policies are of the tiers free, pro; name one with --policy-name"
    assert refused("--policy", str(path), "--arrivals", str(arrivals)) == f"{path}: {expected}"


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
