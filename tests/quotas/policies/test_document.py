"""Policy as code: one bad document per message, and what the good ones say."""

from pathlib import Path

import pytest

from quotas.policies.document import MOST_BYTES, Document, read_document
from quotas.policies.endpoint import DeclaredEndpoint, Hints
from quotas.policies.limit_codec import limit_fields, limit_parse

FOLDER = Path(__file__).parent / "documents"
INVALID = sorted((FOLDER / "invalid").glob("*.yaml"))
VALID = sorted((FOLDER / "valid").glob("*.yaml"))


def read(path: Path) -> Document:
    document = read_document(path.read_text())
    assert isinstance(document, Document), document
    return document


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_document_gets_the_message_in_its_first_line(path: Path) -> None:
    text = path.read_text()
    problems = read_document(text)
    assert isinstance(problems, list)
    assert [str(problem) for problem in problems] == [text.splitlines()[0].removeprefix("# ")]


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_document_is_read(path: Path) -> None:
    read(path)


def test_every_limit_survives_the_way_back_to_fields() -> None:
    for policy in read(FOLDER / "valid" / "every-algorithm.yaml").policies:
        for limit in policy.limits:
            assert limit_parse(limit.name, limit_fields(limit)) == limit


def test_tiers_and_endpoints_carry_what_was_written() -> None:
    document = read(FOLDER / "valid" / "every-algorithm.yaml")
    assert [tier.name for tier in document.tiers] == ["free", "pro"]
    assert document.endpoints[0] == DeclaredEndpoint(
        "payments:create", "POST", "/v1/payments", 5, Hints(bursty=False, clients="many", exact=True)
    )


def test_off_is_a_mode_and_not_a_boolean() -> None:
    limits = {limit.name: limit for limit in read(FOLDER / "valid" / "every-algorithm.yaml").policies[0].limits}
    assert limits["per-minute"].mode == "off"
    assert limits["exact"].mode == "shadow"
    assert limits["burst"].mode == "enforce"


def test_a_policy_belongs_to_a_tier_a_tenant_or_everyone() -> None:
    sources = [policy.source for policy in read(FOLDER / "valid" / "owners.yaml").policies]
    assert sources == [
        "tier pro × payments:create",
        "tenant acme × payments:create",
        "tenant acme × *",
        "global × payments:*",
    ]


def test_all_problems_of_a_document_are_told_at_once() -> None:
    problems = read_document("tiers: [{name: A}]\npolicies: [{name: b, tier: 3, endpoint: x, limits: []}]")
    assert isinstance(problems, list)
    assert [problem.path for problem in problems] == [
        "tiers[0].name",
        "policies[0].tier",
        "policies[0].endpoint",
        "policies[0].limits",
    ]


def test_all_problems_of_one_limit_are_told_at_once() -> None:
    wrong = "{name: b, algorithm: token_bucket, rate: -1, per: 3x, burst: 0, mode: maybe, subject: IP, colour: red}"
    problems = read_document(f"policies: [{{name: x, tier: free, endpoint: '*', limits: [{wrong}]}}]")
    assert isinstance(problems, list)
    told = [problem.path.removeprefix("policies[0].limits[0].") for problem in problems]
    assert told == ["mode", "subject", "colour", "rate", "burst", "per"]


def test_a_document_past_the_size_limit_is_not_even_parsed() -> None:
    problems = read_document("#" * (MOST_BYTES + 1))
    assert isinstance(problems, list)
    assert problems[0].code == "size"


@pytest.mark.parametrize(
    "text",
    ["\ud800", "? [a]\n: b", "\x00", "a: *b", "[" * 100_000, "{" * 100_000, "%YAML 9", "tiers: [{name: " + "9" * 5_000],
    ids=["surrogate", "list as key", "nul", "alias", "brackets", "braces", "directive", "digits"],
)
def test_hostile_text_is_refused_with_a_sentence(text: str) -> None:
    problems = read_document(text)
    assert isinstance(problems, list)
    assert len(problems[0].message) < 300


@pytest.mark.parametrize(
    ("text", "count", "first"),
    [
        ("\n".join(f"k{n}: 1" for n in range(30_000)), 10, "k0 is not a field of the document"),
        (f"tiers: [{{{', '.join(f'k{n}: 1' for n in range(30_000))}}}]", 11, "k0 is not a field of a tier"),
        (f"tiers: [{', '.join('{n: x}' for _ in range(1_000))}]", 100, "n is not a field of a tier; it takes name"),
        (f"tiers: [{', '.join(f'{{name: t{n}}}' for n in range(1_001))}]", 1, "1,001 entries; the maximum is 1,000"),
        (f"endpoints: [{', '.join(f'{{name: e{n}}}' for n in range(5_001))}]", 1, "5,001 entries"),
    ],
    ids=["fields", "fields-of-one", "problems", "tiers", "endpoints"],
)
def test_a_document_of_a_great_many_things_is_given_up_soon(text: str, count: int, first: str) -> None:
    problems = read_document(text)
    assert isinstance(problems, list)
    assert len(problems) <= count + 1
    assert first in problems[0].message


def test_half_of_a_character_is_told_with_its_line() -> None:
    (problem,) = read_document("tiers:\n  - name: \ud800\n")  # type: ignore[misc] # a list of problems
    assert (problem.line, problem.message) == (
        2,
        "the text has half of a character (U+D800, a lone surrogate); write the whole character, or remove it",
    )
