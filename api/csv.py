"""Lists as CSV: the same parameters as the list, without pages, streamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework.renderers import JSONRenderer

from api.inputs import Query
from api.openapi.describe import SEARCHING, described, problems

View = TypeVar("View", bound=Callable[..., Any])
CSV = "text/csv"


class CsvRenderer(JSONRenderer):
    """Lets callers accept text/csv. The view streams; only problems are rendered, as JSON."""

    media_type = CSV
    format = "csv"


def exports(asked: type[Query], columns: tuple[str, ...]) -> Callable[[View], View]:
    words = f"One line for each, with the columns {', '.join(columns)}."
    answer = OpenApiResponse(OpenApiTypes.STR, words)
    return described(asked, responses={(200, CSV): answer, **problems(SEARCHING)})
