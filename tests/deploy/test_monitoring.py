"""Prometheus' rules and Grafana's dashboard: every metric they ask for is one that we serve."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from config.data_folders import ROOT
from quotas import metrics

PROMETHEUS = ROOT / "deploy/prometheus"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/dashboards/headroom.json").read_text())
NAME = re.compile(r"\b(?:headroom|django)[a-z0-9_:]*[a-z0-9](?=[^a-z0-9_:\"]|$)")
ALWAYS = {"up"}


def served() -> set[str]:
    figures = {figure.name for figure in metrics.COLLECTED_METRICS}
    counted = {sample.name for family in metrics.PUBLISHER.collect() for sample in family.samples}
    # Counters with labels have no sample before the first event.
    families = {family.name for family in metrics.PUBLISHER.collect()}
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    pages = {"django_http_requests_latency_including_middlewares_seconds_bucket"}
    return figures | counted | families | {f"{name}_total" for name in families} | recorded | pages


def asked(expression: str) -> set[str]:
    without_labels = re.sub(r"\{[^}]*\}", "", expression)
    return set(NAME.findall(without_labels))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule.get("record"))
def test_a_rule_asks_for_what_there_is(rule: dict[str, Any]) -> None:
    assert asked(rule["expr"]) <= served()


def test_every_panel_asks_for_what_there_is() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            assert asked(target["expr"]), panel["title"]
            assert asked(target["expr"]) <= served(), panel["title"]


def test_every_alert_has_a_runbook_and_a_severity() -> None:
    alerts = [rule for rule in RULES if "alert" in rule]
    assert alerts
    for alert in alerts:
        assert (ROOT / alert["annotations"]["runbook"]).is_file(), alert["alert"]
        assert alert["labels"]["severity"] in ("notice", "warning", "critical")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: the rules are not run")
def test_prometheus_runs_the_rules_as_their_tests_say() -> None:
    result = subprocess.run(
        ["promtool", "test", "rules", "rules.test.yml"], cwd=PROMETHEUS, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    config = ["promtool", "check", "config", "--syntax-only", "prometheus.yml"]
    assert subprocess.run(config, cwd=PROMETHEUS, capture_output=True, check=False).returncode == 0
