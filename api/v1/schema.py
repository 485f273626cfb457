"""The OpenAPI document, and the same as a page that needs no script."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.conf import settings
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import TemplateHTMLRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.v1.described import READING, described, problems
from api.v1.introduction import SECTIONS
from api.v1.pages import operations


@cache
def document() -> dict[str, Any]:
    make: Any = SchemaGenerator
    schema: dict[str, Any] = make().get_schema(request=None, public=True)
    return schema


class Schema(APIView):
    @described(responses={200: dict, **problems(READING)})
    def get(self, request: Request) -> Response:
        """This document: OpenAPI 3.1."""
        return Response(document())


@extend_schema(exclude=True)
class Docs(APIView):
    renderer_classes = [TemplateHTMLRenderer]

    def get(self, request: Request) -> Response:
        told = {
            "document": document(),
            "summary": settings.SPECTACULAR_SETTINGS["DESCRIPTION"],
            "sections": SECTIONS,
            "groups": operations(document()),
            "base": request.build_absolute_uri("/").rstrip("/"),
        }
        return Response(told, template_name="api/docs.html")
