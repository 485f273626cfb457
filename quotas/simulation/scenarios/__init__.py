"""Scenarios with known results, as data. Tests run them on both engines; the simulator shows them."""

from quotas.simulation.scenarios import bursts, change, nesting, sharing, windows
from quotas.simulation.scenarios.model import Scenario

SCENARIOS: dict[int, Scenario] = {
    scenario.number: scenario
    for scenario in sorted(
        (*bursts.SCENARIOS, *windows.SCENARIOS, *nesting.SCENARIOS, *sharing.SCENARIOS, *change.SCENARIOS),
        key=lambda one: one.number,
    )
}
