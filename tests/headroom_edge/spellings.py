"""A6: other spellings of a path, as attackers try them; and which endpoint was charged for an answer."""

from __future__ import annotations

import random
from collections.abc import Mapping

from quotas.policies.spec import Limit
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ROUTES_OF_RIDES, Answer

BASES = (
    ("GET", "/v1/rides"),
    ("POST", "/v1/rides"),
    ("GET", "/v1/rides/7"),
    ("GET", "/v1/rides/status"),
    ("POST", "/v1/rides/7/cancel"),
)
HANDWRITTEN = (
    "//v1//rides/7",
    "/v1/rides/",
    "/v1/rides/7/",
    "/v1/./rides",
    "/v1/x/../rides",
    "/v1/x/%2e%2e/rides",
    "/v1/x/%2E./rides",
    "/v1/rides/%2e%2e/rides/7",
    "/v1/rides/7/..",
    "/v1/rides/7/%2e%2e",
    "/v1/rides/../cancel",
    "/v1/rides/%2e%2e/cancel",
    "/v1/rides;x",
    "/v1/rides;x=1/7",
    "/v1/rides/7;x=1",
    "/v1/rides/status;x",
    "/V1/RIDES",
    "/v1/rides/STATUS",
    "/v1/rides%2F7",
    "/v1%2frides",
    "/v1/rides/a%2Fb",
    "/v1/rides/%73tatus",
    "/v1/r%69des",
    "/v1/rides/%2573tatus",
    "/v1/rides/7%00",
    "/v1/rides/%ff",
    "/v1/rides/7%3Fx",
    "/v1/rides/7?x=/../..",
    "/v1/rides/7%23",
    "/v1/rides\\7",
    "/v1/rides/..%2fstatus",
    "/%76%31/rides",
    "/v1/rides#",
    "/v1/rides#x",
    "/v1/rides/7#x",
    "/v1/rides/7#/../status",
    "/v1/rides/7/cancel#x",
    "/v1/rides/status#x",
    "/v1/rides/status%23x",
    "/v1/rides%23x",
    "/v1/rides#x?y",
    "/v1/rides?x#y",
    "/#/v1/rides",
    "http://example.com/v1/rides",
    "http://example.com:80/v1/rides/7",
    "HTTP://example.com//v1/rides/status#x",
    "http://example.com/v1/rides/7/cancel?x",
    "http://example.com/v1/x/%2e%2e/rides",
    "http://example.com",
    "http://example.com?x=/v1/rides",
    "http://example.com/http://example.com/v1/rides",
    "/v1/rides/status%0A",
    "/v1/rides/status%0a?x",
    "/v1/rides/status%0A%0A",
    "/v1/rides/status%0D%0A",
    "/v1/rides/status%0A/",
    "/v1/rides/status%20",
    "/v1/rides/status%250A",
    "/v1/rides/7%0A",
    "/v1/rides/7/cancel%0A",
    "/v1/rides/%0A",
    "/v1/rides%0A",
    "/v1%0A/rides",
    "v1/rides",
    "*",
)
# What dots mean here depends on the server: another path, or the text of a variable.
DOTTED = tuple(("GET", path) for path in ("/v1/rides/.", "/v1/rides/..", "/v1/rides/%2e", "/v1/rides/%2E%2e"))
METHODS = ("get", "Get", "post", "pOST", "GETT", "BREW", "HEAD", "OPTIONS", "PROPFIND")


def endpoints() -> Mapping[str, tuple[Limit, ...]]:
    """Each endpoint has one limit, by whose name it can be told."""
    return {
        route.endpoint: (limit(named(route.endpoint), "fixed_window", limit=1_000_000, window="1h"),)
        for route in ROUTES_OF_RIDES
    }


def named(endpoint: str) -> str:
    return endpoint.replace(":", "-")


def spellings(count: int, seed: int = 6) -> list[tuple[str, str]]:
    seeded = random.Random(seed)
    written = [(method, path) for path in HANDWRITTEN for method in ("GET", "POST")]
    written += [(method, path) for method in METHODS for path in ("/v1/rides", "/v1/rides/7", "/v1/rides/7/cancel")]
    return written + [_mutated(seeded, *seeded.choice(BASES)) for _ in range(count)]


def _mutated(seeded: random.Random, method: str, path: str) -> tuple[str, str]:
    for _ in range(seeded.randint(1, 3)):
        at = seeded.randrange(1, len(path) + 1)
        mutation = seeded.choice(
            ("//", "/./", "/x/../", "/%2e%2e/", ";x", "%2F", "#x", "%23", "%0A", "\\", "encode", "case", "method", "/")
        )
        if mutation == "encode" and path[at - 1] not in "/%":
            path = f"{path[: at - 1]}%{ord(path[at - 1]):02x}{path[at:]}"
        elif mutation == "case":
            path = path[: at - 1] + path[at - 1 :].swapcase()
        elif mutation == "method":
            method = method[:1] + method[1:].swapcase()
        elif mutation != "encode":
            slash = path.rfind("/", 0, at)
            path = path[:slash] + mutation + path[slash + 1 :] if "/" in mutation else path[:at] + mutation + path[at:]
    return method, seeded.choice(("", "", "", "http://example.com")) + path


def charged(answer: Answer) -> str:
    """The name of the limit that was charged; empty: none."""
    return answer.headers.get("ratelimit-policy", "").partition(";")[0].strip('"')
