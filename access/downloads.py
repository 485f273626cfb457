"""Files that are sent line by line, so that an export of any size needs little memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, StreamingHttpResponse

from quotas.csv_text import csv_lines

LINES = 500  # in one piece


def csv_download(
    request: HttpRequest, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> StreamingHttpResponse:
    lines = csv_lines(header, rows)
    # Django would collect what an ordinary iterator yields before it sends anything from an asynchronous server.
    content: Any = _pieces_apart(lines) if isinstance(request, ASGIRequest) else _pieces(lines)
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingHttpResponse(content, content_type="text/csv; charset=utf-8", headers=headers)


def _pieces(lines: Iterator[str]) -> Iterator[str]:
    while piece := "".join(islice(lines, LINES)):
        yield piece


async def _pieces_apart(lines: Iterator[str]) -> AsyncIterator[str]:
    while piece := await sync_to_async(_piece_apart)(lines):
        yield piece


def _piece_apart(lines: Iterator[str]) -> str:
    """Runs in a worker thread, so the thread must close its connection."""
    try:
        return "".join(islice(lines, LINES))
    finally:
        close_old_connections()
