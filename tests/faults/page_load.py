"""Loads pages over many connections as fast as it is let.

`python -m tests.faults.page_load PORT KEY CONNECTIONS PATH…`; each connection loads one of the paths again and again.

It stands for another machine: it takes the processor only when nobody else wants it. Ends when its input closes, with
a count of each status.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from itertools import cycle, islice

from config.supervisor import give_way


async def load(port: int, key: str, path: str, counts: Counter[str]) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request.encode())
            answer = await reader.read()
            writer.close()
        except OSError:
            counts["closed"] += 1
            await asyncio.sleep(0.05)
        else:
            counts[answer[9:12].decode() or "closed"] += 1


async def main(port: int, key: str, connections: int, paths: list[str]) -> None:
    counts = Counter[str]()
    chosen = islice(cycle(paths), connections)
    tasks = [asyncio.create_task(load(port, key, path, counts)) for path in chosen]
    sys.stdout.write("loading\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    give_way(19)
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
