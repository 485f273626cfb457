"""What to tell a caller when PostgreSQL or Redis did not do its part: whether it is down, or only busy."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from psycopg_pool import TooManyRequests

from headroom_edge.problems import Problem

RETRY_SECONDS: Final = 1
BUSY_RETRY_SECONDS: Final = 2
BUSY: Final = "busy"
# Classes of PostgreSQL's error codes that a server in good health sends.
_NO_ROOM: Final = "53"  # too many connections, out of memory, disk full
_CONFLICTS: Final = ("40", "55")  # a deadlock, a conflict between transactions, a lock that was not free in time
_CANCELLED: Final = "57014"


def outage_of(error: BaseException) -> Problem:
    cause = error.__cause__
    if isinstance(cause, TooManyRequests):
        return busy(f"All database connections are in use; try again in {BUSY_RETRY_SECONDS} seconds.")
    state = getattr(cause, "sqlstate", None) or ""
    if state.startswith(_CONFLICTS) or state == _CANCELLED:
        detail = "The database was busy with other requests, and nothing was changed"
        return busy(f"{detail}; try again in {BUSY_RETRY_SECONDS} seconds.")
    if state.startswith(_NO_ROOM):
        return busy(f"The database server has no room left; try again in {BUSY_RETRY_SECONDS} seconds.")
    detail = "PostgreSQL or Redis cannot be reached at the moment; try again in a second."
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", detail, headers={"Retry-After": str(RETRY_SECONDS)})


def busy(sentence: str, retry_s: int = BUSY_RETRY_SECONDS) -> Problem:
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, BUSY, sentence, headers={"Retry-After": str(retry_s)})
