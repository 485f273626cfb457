"""JSON bodies of a bounded size and depth."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any

from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from quotas.policies.problems import ENDLESS, is_endless

MOST_BYTES = 2 * 1_048_576


class BoundedJSONParser(JSONParser):
    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        body = stream.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise RequestDataTooBig
        try:
            data = super().parse(BytesIO(body), media_type, parser_context)
        except RecursionError:
            raise ParseError("JSON parse error: nested too deeply; a request needs far less") from None
        if is_endless(data):
            raise ParseError(ENDLESS)
        return data
