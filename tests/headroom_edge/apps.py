"""Small services to stand behind the gateway: rides, and which endpoint really served a request, in three frameworks.

Every answer of a route says its endpoint in the field Served-By, so that tests need not guess.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import flask
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse

SERVED_BY = "Served-By"


def fastapi_app() -> FastAPI:
    app = FastAPI()

    @app.get("/v1/rides")
    async def list_rides(response: Response) -> dict[str, str]:
        response.headers[SERVED_BY] = "rides:list"
        return {"rides": "all"}

    @app.post("/v1/rides")
    async def create(response: Response) -> dict[str, str]:
        response.headers[SERVED_BY] = "rides:create"
        return {"ride": "new"}

    @app.get("/v1/rides/status")
    async def status(response: Response) -> dict[str, str]:
        response.headers[SERVED_BY] = "rides:status"
        return {"rides": "well"}

    @app.get("/v1/rides/{ride}")
    async def get(ride: str, response: Response) -> dict[str, str]:
        response.headers[SERVED_BY] = "rides:get"
        return {"ride": ride}

    @app.post("/v1/rides/{ride}/cancel")
    async def cancel(ride: str, response: Response) -> dict[str, str]:
        response.headers[SERVED_BY] = "rides:cancel"
        return {"cancelled": ride}

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            for number in range(3):
                await asyncio.sleep(0)
                yield str(number).encode()

        return StreamingResponse(parts())

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("as it was meant to")

    return app


def flask_app() -> flask.Flask:
    app = flask.Flask("rides")

    def served(endpoint: str, **body: Any) -> flask.Response:
        response = flask.jsonify(body)
        response.headers[SERVED_BY] = endpoint
        return response

    app.add_url_rule("/v1/rides", "list", lambda: served("rides:list"), methods=["GET"])
    app.add_url_rule("/v1/rides", "create", lambda: served("rides:create"), methods=["POST"])
    app.add_url_rule("/v1/rides/status", "status", lambda: served("rides:status"))
    app.add_url_rule("/v1/rides/<ride>", "get", lambda ride: served("rides:get", ride=ride))
    app.add_url_rule("/v1/rides/<ride>/cancel", "cancel", lambda ride: served("rides:cancel"), methods=["POST"])
    app.add_url_rule("/stream", "stream", lambda: flask.Response(iter(["0", "1", "2"])))

    @app.get("/broken")
    def broken() -> str:
        raise RuntimeError("as it was meant to")

    return app
