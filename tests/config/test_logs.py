from __future__ import annotations

import logging

import redis
from django.db import OperationalError

from config.logs import but_health, outages_in_one_line


def record(message: str, error: Exception | None = None) -> logging.LogRecord:
    exc_info = (type(error), error, None) if error else None
    return logging.LogRecord("name", logging.ERROR, __file__, 1, message, (), exc_info)


def test_health_is_not_logged() -> None:
    assert not but_health(record("Service Unavailable: /healthz"))
    assert but_health(record("Not Found: /else"))


def test_an_outage_is_one_line() -> None:
    given = record("Task drain raised unexpected: away\nfor a while", OperationalError("away\nfor a while"))
    assert outages_in_one_line(given)
    assert logging.Formatter().format(given) == "Task drain raised unexpected: away"


def test_an_outage_behind_another_error_is_one_line_too() -> None:
    error = RuntimeError("cannot send")
    error.__cause__ = redis.ConnectionError("closed")
    given = record("Message Error: cannot send\n[stack]", error)
    assert outages_in_one_line(given)
    assert logging.Formatter().format(given) == "Message Error: cannot send"


def test_a_fault_of_the_code_keeps_its_traceback() -> None:
    given = record("Task drain raised unexpected", ZeroDivisionError("oops"))
    assert outages_in_one_line(given)
    assert "ZeroDivisionError: oops" in logging.Formatter().format(given)
