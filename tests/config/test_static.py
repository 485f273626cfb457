from __future__ import annotations

import warnings

import pytest
from django.test import AsyncClient

FILE = "/static/api/docs.css"


@pytest.mark.parametrize(("header", "status", "size"), [({}, 200, None), ({"range": "bytes=0-9"}, 206, 10)])
async def test_a_static_file_is_served_without_a_warning(header: dict[str, str], status: int, size: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = await AsyncClient().get(FILE, headers=header)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, 'text/css; charset="utf-8"')
    assert len(answer.content) == (size or int(answer.headers["Content-Length"]))


async def test_what_is_known_is_not_sent_again() -> None:
    first = await AsyncClient().get(FILE)
    again = await AsyncClient().get(FILE, headers={"if-modified-since": first.headers["Last-Modified"]})
    assert (again.status_code, again.content) == (304, b"")
