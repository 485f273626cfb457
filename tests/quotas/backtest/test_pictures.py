"""Pictures of a backtest: whole SVG, with every rule named."""

from __future__ import annotations

from xml.etree import ElementTree

from quotas.backtest.pictures import pictures
from quotas.backtest.run import BacktestReport
from quotas.backtest.scoring import RuleScore

RULES = {"recommender": RuleScore(0.02, 0.1, 0.005, 2.4, 9), "max<x>": RuleScore(0.0, 0.3, 0.1, 1.1, 5)}


def test_they_are_well_formed_and_name_the_rules() -> None:
    found = pictures(BacktestReport(10, 0, (), 2, 2, 7.0, 7.0, RULES, {"max<x>": RULES["max<x>"]}))
    assert set(found) == {"frontier.svg", "tenants.svg"}
    for text in found.values():
        root = ElementTree.fromstring(text)  # noqa: S314 - our own
        assert root.tag.endswith("svg")
        words = [element.text for element in root.iter() if element.text]
        assert {"recommender", "max<x>"} <= set(words)
