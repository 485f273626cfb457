"""What the logs leave out."""

from __future__ import annotations

from collections.abc import Iterator
from logging import LogRecord

import redis
from django.db import InterfaceError, OperationalError
from kombu.exceptions import OperationalError as BrokerError

OUTAGES = (InterfaceError, OperationalError, BrokerError, redis.ConnectionError, redis.TimeoutError)


def but_health(record: LogRecord) -> bool:
    """The supervisor and every load balancer ask each second, and the answer already says what is wrong."""
    return "/healthz" not in record.getMessage()


def outages_in_one_line(record: LogRecord) -> bool:
    """A server that is away is no fault of the code: where it was noticed is of no use to anybody."""
    if record.exc_info and any(isinstance(error, OUTAGES) for error in _chain(record.exc_info[1])):
        record.exc_info = None
        record.exc_text = None
        record.msg, record.args = record.getMessage().splitlines()[0], ()
    return True


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
