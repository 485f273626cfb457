"""A path as the server behind reads it: decoded, split, with the oddities that servers treat differently."""

from __future__ import annotations

import re
from binascii import a2b_qp
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from headroom_edge.plan.routes import Route, Routes, SplitPath

LONGEST_PATH: Final = 8_192  # longer ones are refused: unmatched they would escape their endpoint's policy
PATHS_KEPT: Final = 64
_NO_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_PARAMETERS: Final = (";", "%3b", "%3B", "%25")
_DOTS: Final = (".", "..")


@dataclass(frozen=True, slots=True)
class PathReading:
    """How a server reads the path of a request before it looks for a route."""

    decodes: int = 1  # how often %xx is decoded; 0: the path comes decoded
    joins_encoded_slash: bool = False  # %2F stays inside its segment
    merges_slashes: bool = True  # // is /
    resolves_dots: bool = True  # . and .. are gone before routing
    drops_parameters: bool = False  # ;x at the end of a segment is no part of it
    ignores_case: bool = False


# What nginx, Traefik, Caddy and most servers behind them do.
USUAL: Final = PathReading()
# Inside a Python framework: the path has been decoded, and the router takes it as it is.
AS_ROUTED: Final = PathReading(decodes=0, merges_slashes=False, resolves_dots=False)
# Everything that any server does. Applied to what is otherwise nobody's, so that no spelling escapes a policy.
LENIENT: Final = PathReading(decodes=2, drops_parameters=True, ignores_case=True)


class EndpointFinder:
    """Endpoints by method and path. Immutable: new routes make a new one."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._exact = Routes(routes)
        self._folded = Routes(routes, ignore_case=True)
        self.is_empty = not routes

    def find(self, method: str, path: str, reading: PathReading) -> str | None:
        """Of a path of at most LONGEST_PATH characters, without a query."""
        if self.is_empty or not path.startswith("/"):
            return None
        found = self._match(method, path, reading)
        if found is None:
            found = self._match(method, path, replace(LENIENT, decodes=2 if reading.decodes else 1))
        return found

    def _match(self, method: str, path: str, reading: PathReading) -> str | None:
        routes = self._folded if reading.ignores_case else self._exact
        return routes.match(method, split_path(path, reading))


def target_path(target: str) -> str:
    """The path of a request target: without the query, and without scheme and host where a client sent them."""
    path = target.partition("?")[0]
    if not path.startswith("/") and "://" in path:
        _, slash, rest = path.partition("://")[2].partition("/")
        path = slash + rest
    return path


def split_path(path: str, reading: PathReading) -> SplitPath:
    segments = _segments(path, reading)
    slash = segments[-1] == "" or (reading.resolves_dots and segments[-1] in _DOTS)
    if segments[-1] == "":
        segments.pop()
    if reading.merges_slashes:
        segments = [segment for segment in segments if segment]
    if reading.resolves_dots and ("." in segments or ".." in segments):
        segments = _without_dots(segments)
    return SplitPath(segments, slash=slash and bool(segments))


def _segments(path: str, reading: PathReading) -> list[str]:
    """Decoded, of what comes after the first slash; at least one."""
    inner = path[1:]
    if reading.joins_encoded_slash:
        segments = [_decoded(segment, reading.decodes) for segment in inner.split("/")]
    else:
        segments = _decoded(inner, reading.decodes).split("/")
    if reading.drops_parameters and any(sign in inner for sign in _PARAMETERS):
        segments = [segment.partition(";")[0] for segment in segments]
    return segments


def _decoded(text: str, times: int) -> str:
    for _ in range(times):
        plain = unquoted(text) if "%" in text else text
        if plain == text:
            break
        text = plain
    return text


# A path that fits no route is read twice, in two ways.
@lru_cache(maxsize=PATHS_KEPT)
def unquoted(text: str) -> str:
    """As urllib.parse.unquote. That takes 1 ms for 8 KB of %2e; quoted-printable is the same code with =, in C."""
    # Of two signs in a row the first is never an escape; to say so halves the work on a row of them.
    marked = text.replace("=", "=3D").replace("%%", "=25%")
    marked = _NO_ESCAPE.sub("=25", marked).replace("%", "=")
    return a2b_qp(marked.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _without_dots(segments: list[str]) -> list[str]:
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            # Nothing is above the root.
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    return kept
