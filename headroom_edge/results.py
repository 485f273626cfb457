"""How a request ended, for limits that adapt to the service behind.

`ok`: it was answered, and its latency counts. `drop`: the service refused it or ran into a time-out, so it is
overloaded. `ignore`: nothing can be learned, such as after a bug or when the client has gone.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Literal, get_args

Result = Literal["ok", "drop", "ignore"]
RESULTS: Final[tuple[Result, ...]] = get_args(Result)

# The service's own 429 too: a request that Headroom denied never reached it.
OVERLOADED: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
FAILED: Final = 500


def of_status(status: int) -> Result:
    """Other failures end early or late for reasons of their own, so their latency does not count."""
    if status in OVERLOADED:
        return "drop"
    return "ok" if status < FAILED else "ignore"


def of_error(kind: type[BaseException]) -> Result:
    return "drop" if issubclass(kind, TimeoutError) else "ignore"
