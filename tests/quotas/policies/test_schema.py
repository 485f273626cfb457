"""The published JSON Schema: it takes what the reader takes, and stands in docs/ as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from config.data_folders import ROOT
from headroom_edge.algorithms import ALGORITHMS, FIELDS
from quotas.policies import schema
from quotas.policies.document import _Loader
from quotas.policies.spec import ALGORITHM_NAMES

POLICIES = Path(__file__).parent / "documents"
# What no schema of single fields can say: it depends on other fields, or on what there is.
BEYOND = {
    "burst-too-large",
    "calendar-anchor-on-day",
    "calendar-anchor-on-month",
    "calendar-anchor-on-week",
    "calendar-anchor-on-year",
    "calendar-global-without-zone",
    "calendar-zone-unknown",
    "endpoint-path-dots",
    "endpoint-path-variable-twice",
    "endpoint-route-twice",
    "endpoint-twice",
    "limit-name-twice",
    "max-wait-too-long",
    "policy-attached-twice",
    "rate-fraction",
    "policy-endpoint-whole-service",
    "policy-name-twice",
    "policy-tier-and-tenant",
    "rate-beyond-2-32",
    "sliding-counter-too-large",
    "subject-alternative-twice",
    "subject-reserved",
    "subject-twice",
    "tier-twice",
    "two-leaky-buckets",
}


def load(path: Path) -> Any:
    return yaml.load(path.read_text(), Loader=_Loader)  # noqa: S506 - a safe loader of our own


def problems(document: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(schema.document()).iter_errors(document)]


def test_it_is_a_schema_and_the_published_one() -> None:
    Draft202012Validator.check_schema(schema.document())
    assert json.loads((ROOT / "docs" / "policy.schema.json").read_text()) == schema.document()


def test_it_knows_every_algorithm_and_every_parameter() -> None:
    assert tuple(ALGORITHMS) == ALGORITHM_NAMES
    by_algorithm = {limit["title"]: limit["properties"].keys() for limit in schema.limit()["oneOf"]}
    assert by_algorithm.keys() == ALGORITHMS.keys()
    assert all(by_algorithm[name] >= set(fields) for name, fields in FIELDS.items())
    assert schema.limit_patch()["properties"].keys() >= {field for fields in FIELDS.values() for field in fields}


@pytest.mark.parametrize("path", sorted((POLICIES / "valid").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_is_valid_passes(path: Path) -> None:
    assert problems(load(path)) == []


def test_what_is_wrong_by_itself_does_not() -> None:
    paths = [path for path in (POLICIES / "invalid").glob("*.yaml") if not path.stem.startswith("document-")]
    assert {path.stem for path in paths if not problems(load(path))} == BEYOND
