"""Request paths as the server behind the gateway reads them. Servers differ in how they decode and normalise."""

from __future__ import annotations

import re
from binascii import a2b_qp
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from headroom_edge.plan.routes import Route, Routes, SplitPath

LONGEST_PATH: Final = 8_192  # longer paths are refused: unmatched, they would escape their endpoint's limits
EVERYTHING: Final = "*"  # the target of OPTIONS for the whole server; it is not a path
PATHS_KEPT: Final = 64
_NO_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_PARAMETERS: Final = (";", "%3b", "%3B", "%25")
_TARGET_ENDS: Final = re.compile("[?#]")
_DOTS: Final = (".", "..")
_NEWLINES: Final = ("\n", "%0A", "%0a")
_PLAIN: Final = re.compile("(?:/[A-Za-z0-9_-]+)+")  # no server reads such a path differently, except for its case


@dataclass(frozen=True, slots=True)
class PathReading:
    """How a server reads a request's path before it looks for a route."""

    decodes: int = 1  # how often %xx is decoded; 0: the path is decoded already
    joins_encoded_slash: bool = False  # %2F does not end its segment
    merges_slashes: bool = True  # // counts as /
    resolves_dots: bool = True  # . and .. are resolved before routing
    drops_parameters: bool = False  # ;x at the end of a segment is dropped
    ignores_case: bool = False
    keeps_hash: bool = False  # a # that was sent as it is does not end the path
    cuts_decoded: bool = False  # ? and # end the path even if they were encoded
    turns_backslashes: bool = False  # \ counts as /
    drops_newline: bool = True  # one newline at the end is dropped: to many regular expressions, `$` is before it too
    trims_end: bool = False  # all white space at the end is dropped


# How nginx, Traefik, Caddy and most servers behind them read a path.
USUAL: Final = PathReading()
# Inside a Python framework the path is decoded already, and the router takes it as it is.
AS_ROUTED: Final = PathReading(decodes=0, merges_slashes=False, resolves_dots=False, drops_newline=False)
# Starlette and FastAPI end their regular expressions in `$`; Flask and Django do not.
AS_STARLETTE: Final = replace(AS_ROUTED, drops_newline=True)
# Everything that some server does. Used for paths that match no route, so that no spelling escapes its limits.
LENIENT: Final = PathReading(
    decodes=2, drops_parameters=True, ignores_case=True, cuts_decoded=True, turns_backslashes=True, trims_end=True
)
_LENIENT_DECODED: Final = replace(LENIENT, decodes=1)
_LENIENT_DOTS: Final = replace(LENIENT, resolves_dots=False)


class EndpointFinder:
    """Finds endpoints by method and path. Immutable: for new routes, create a new one."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._exact = Routes(routes)
        self._folded = Routes(routes, ignore_case=True)
        self.is_empty = not routes

    def find(self, method: str, path: str, reading: PathReading) -> str | None:
        """`path` has at most LONGEST_PATH characters and no query."""
        if self.is_empty or path == EVERYTHING:
            return None
        # No endpoint has a method in lower case, but some servers serve `post` as POST.
        method = method.strip().upper()
        if _PLAIN.fullmatch(path):
            endpoint = (self._folded if reading.ignores_case else self._exact).match_segments(
                method, path[1:].split("/")
            )
            if endpoint is not None:
                return endpoint
        # Some servers serve a path that was sent without its first slash.
        endpoint = self._match(method, path if path.startswith("/") else "/" + path, reading)
        if endpoint is not None:
            return endpoint
        path = target_path(path)
        endpoint = self._match(method, path, LENIENT if reading.decodes else _LENIENT_DECODED)
        if endpoint is None and reading.resolves_dots and ("." in path or "%" in path):
            endpoint = self._match(method, path, _LENIENT_DOTS)
        return endpoint

    def _match(self, method: str, path: str, reading: PathReading) -> str | None:
        routes = self._folded if reading.ignores_case else self._exact
        split = split_path(path, reading)
        if reading.drops_newline and path.endswith(_NEWLINES):
            endpoint = _match_before_newline(routes, method, split)
            if endpoint is not None:
                return endpoint
        return routes.match(method, split)


def _match_before_newline(routes: Routes, method: str, path: SplitPath) -> str | None:
    """Before all others, because a variable would take the newline as text: `/rides/status%0A` is no ride."""
    *before, last = path.segments or [""]
    if path.slash or not last.endswith("\n"):
        return None
    if last == "\n":
        # `/rides/$` matches it, and `/rides$` does not.
        return routes.match(method, SplitPath(before, slash=bool(before)), exact_slash=True)
    return routes.match(method, SplitPath([*before, last[:-1]]))


def target_path(target: str, reading: PathReading = USUAL) -> str:
    """The path of a request target: without query and fragment, and without scheme and host if the client sent them."""
    path = target.partition("?")[0] if reading.keeps_hash else _TARGET_ENDS.split(target, maxsplit=1)[0]
    if not path.startswith("/") and "://" in path:
        _, slash, rest = path.partition("://")[2].partition("/")
        path = slash + rest
    if path.startswith("/") or path == EVERYTHING:
        return path
    return "/" + path


def is_below(path: str, prefixes: tuple[str, ...]) -> bool:
    """Whether every server takes the path to be below one of the prefixes: no dots lead out of it again."""
    return path.startswith(prefixes) and not any(
        segment.partition(";")[0] == ".." for segment in _decoded(path, 2).replace("\\", "/").split("/")
    )


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
    """The decoded segments after the first slash; at least one."""
    inner = path[1:]
    if reading.joins_encoded_slash:
        segments = [_decoded(segment, reading.decodes) for segment in inner.split("/")]
    else:
        text = _decoded(inner, reading.decodes)
        if reading.cuts_decoded or reading.turns_backslashes or reading.trims_end:
            text = _without_tricks(text, reading)
        segments = text.split("/")
    if reading.drops_parameters and any(sign in inner for sign in _PARAMETERS):
        segments = [segment.partition(";")[0] for segment in segments]
    return segments


def _without_tricks(text: str, reading: PathReading) -> str:
    if reading.cuts_decoded:
        text = _TARGET_ENDS.split(text, maxsplit=1)[0]
    if reading.trims_end:
        text = text.rstrip()
    return text.replace("\\", "/") if reading.turns_backslashes else text


def _decoded(text: str, times: int) -> str:
    for _ in range(times):
        plain = unquoted(text) if "%" in text else text
        if plain == text:
            break
        text = plain
    return text


# Cached because a path that matches no route is decoded twice, by two readings.
@lru_cache(maxsize=PATHS_KEPT)
def unquoted(text: str) -> str:
    """Like urllib.parse.unquote, which takes 1 ms for 8 KB of %2e. Quoted-printable differs only in = and is in C."""
    # The first of two % in a row is never an escape; replacing it here halves the work on long runs of %.
    marked = text.replace("=", "=3D").replace("%%", "=25%")
    marked = _NO_ESCAPE.sub("=25", marked).replace("%", "=")
    return a2b_qp(marked.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _without_dots(segments: list[str]) -> list[str]:
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            # At the root, `..` does nothing.
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    return kept
