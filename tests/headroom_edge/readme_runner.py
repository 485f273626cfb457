"""Runs in an empty environment: the example of the README, then a few requests. Prints their statuses as JSON."""

import asyncio
import json
import os
import sys

from headroom_edge import AsyncLimiter

KEY = sys.argv[2].encode()


async def status_of(app: object) -> int:
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/rider/v1/rides/7",
        "raw_path": b"/rider/v1/rides/7",
        "query_string": b"",
        "headers": [(b"x-api-key", KEY)],
        "client": ("203.0.113.9", 4711),
    }
    await app(scope, receive, send)  # type: ignore[operator]
    status = sent[0]["status"]
    assert isinstance(status, int)
    return status


async def main() -> None:
    names: dict[str, object] = {}
    with open(sys.argv[1]) as file:  # noqa: ASYNC230 - nothing else runs here
        exec(file.read(), names)  # noqa: S102 - the example of our own README
    app = names["app"]
    # The cores are shared with other tests: a budget that only a fault can exceed.
    limiter = AsyncLimiter.from_url(os.environ["REDIS_URL"], budget_ms=60_000)
    app.user_middleware[0].kwargs["limiter"] = limiter  # type: ignore[attr-defined]
    statuses = [await status_of(app) for _ in range(7)]
    loaded = sorted({name.partition(".")[0] for name in sys.modules} & {"django", "rest_framework", "msgspec", "yaml"})
    print(json.dumps({"statuses": statuses, "loaded": loaded}))  # noqa: T201 - read by the test


asyncio.run(main())
