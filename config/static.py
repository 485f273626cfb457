"""Static files, sent whole: they are small, and Django warns about every streamed file under an async server."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.views.decorators.http import require_safe
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc] # it has no types
    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        stored = static_file.get_response(request.method, request.META)
        content = b""
        if stored.file is not None:
            with stored.file as file:
                content = file.read()
        response = HttpResponse(content, status=int(stored.status))
        del response.headers["Content-Type"]
        for name, value in stored.headers:
            response.headers[name] = value
        return response


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """Browsers request it for pages without an icon, such as JSON."""
    return redirect(static("dashboards/icon.svg"), permanent=True)
