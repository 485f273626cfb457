from __future__ import annotations

import asyncio

import pytest

from headroom_edge.results import Result, of_error, of_status


@pytest.mark.parametrize(
    ("status", "result"),
    [(200, "ok"), (404, "ok"), (429, "drop"), (500, "ignore"), (502, "ignore"), (503, "drop"), (504, "drop")],
)
def test_a_status_says_whether_the_service_is_overloaded(status: int, result: Result) -> None:
    assert of_status(status) == result


@pytest.mark.parametrize(
    ("kind", "result"),
    [(TimeoutError, "drop"), (RuntimeError, "ignore"), (asyncio.CancelledError, "ignore"), (GeneratorExit, "ignore")],
)
def test_only_a_time_out_is_a_drop(kind: type[BaseException], result: Result) -> None:
    assert of_error(kind) == result
