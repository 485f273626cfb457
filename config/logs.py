"""Log filters."""

from __future__ import annotations

from collections.abc import Iterator
from logging import LogRecord

import redis
from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError
from kombu.exceptions import OperationalError as BrokerError

# A wrong SECRET_KEY (tenants.keyring) is one too: its message says what to do.
OUTAGES = (
    *(InterfaceError, OperationalError, BrokerError, redis.ConnectionError, redis.TimeoutError),
    ImproperlyConfigured,
)


def but_health(record: LogRecord) -> bool:
    """Drops /healthz: it is requested every second, and its response already says what is wrong."""
    return "/healthz" not in record.getMessage()


def outages_in_one_line(record: LogRecord) -> bool:
    """Cuts the traceback of an outage: a server being down is not a fault of the code."""
    if record.exc_info and any(isinstance(error, OUTAGES) for error in _chain(record.exc_info[1])):
        record.exc_info = None
        record.exc_text = None
        record.msg, record.args = record.getMessage().splitlines()[0], ()
    return True


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
