"""The priority of a request: how far it may fill a pool that lends.

An endpoint has a priority. A tier, a tenant or the caller may lower it; nobody raises it.
"""

from typing import Literal, get_args

Priority = Literal["critical", "high", "normal", "sheddable"]

PRIORITIES: tuple[Priority, ...] = get_args(Priority)  # the most important first; a plan and Lua count them from 1
USUAL: Priority = "normal"
# Percent of what a pool lends that requests of each priority may use at once.
FILLS: dict[Priority, int] = {"critical": 100, "high": 90, "normal": 75, "sheddable": 50}


def priority_of(value: object) -> Priority | None:
    """None: there is no such priority."""
    return next((priority for priority in PRIORITIES if priority == value), None)


def highest(*priorities: str | None) -> Priority | Literal[""]:
    """The highest that all of them let a request have: the least important that is given. Empty: no bound."""
    given = [priority for priority in PRIORITIES if priority in priorities]
    return given[-1] if given else ""


def filled(lendable: int, priority: Priority) -> int:
    """Rounded up, so that a lender of one unit lends it to every priority."""
    return -(-lendable * FILLS[priority] // 100)


def lowest(*priorities: str | None) -> Priority:
    """The least important of those that are given; `normal` if none is."""
    return highest(*priorities) or USUAL


def number_of(priority: Priority) -> int:
    """As a plan and Lua write it."""
    return PRIORITIES.index(priority) + 1
