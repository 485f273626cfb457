"""Finds the endpoint of a method and path.

Paths are decoded and split into segments (`headroom_edge.plan.paths`). A segment of a template is literal text or one
{variable}, which matches any non-empty segment. There are no regular expressions, so no path is slow to match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

ANY_METHOD = "*"
# The methods that endpoints may have, in the order in which they stand in for a method that no endpoint may have.
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# Method → the methods whose endpoints may serve it, best first. HEAD is served by GET's endpoint unless it has its own.
_SERVED_AS = {method: (method, ANY_METHOD) for method in METHODS} | {"HEAD": ("HEAD", "GET", ANY_METHOD)}
# Many handlers never look at the method, so an invented one must not escape the limits of its path.
_INVENTED = (ANY_METHOD, *METHODS)


@dataclass(frozen=True, slots=True)
class Route:
    endpoint: str
    method: str
    path: str  # a template, such as /v1/rides/{id}


@dataclass(frozen=True, slots=True)
class SplitPath:
    """A path's segments, and whether it ends in /, which matters to some servers only."""

    segments: Sequence[str]
    slash: bool = False


@dataclass(slots=True)
class _Node:
    literals: dict[str, _Node] = field(default_factory=dict)
    variable: _Node | None = None
    ends: dict[str, str] = field(default_factory=dict)  # method → endpoint
    ends_with_slash: dict[str, str] = field(default_factory=dict)


class Routes:
    """A tree of segments. A match visits every node at most once, whatever the path."""

    def __init__(self, routes: Iterable[Route], *, ignore_case: bool = False) -> None:
        self._ignore_case = ignore_case
        self._root = _Node()
        self._depth = 0
        for route in routes:
            self._add(route)

    def match(self, method: str, path: SplitPath, *, exact_slash: bool = False) -> str | None:
        """The endpoint of the most specific template: literals before variables, from left to right.

        `exact_slash`: a template that ends in / does not match a path without it, nor the other way round.
        """
        return self.match_segments(method, path.segments, slash=path.slash, exact_slash=exact_slash)

    def match_segments(
        self, method: str, segments: Sequence[str], *, slash: bool = False, exact_slash: bool = False
    ) -> str | None:
        if len(segments) > self._depth:
            return None
        if self._ignore_case:
            segments = [segment.lower() for segment in segments]
        methods = _SERVED_AS.get(method, _INVENTED)
        for node in self._leaves(segments):
            endpoint = _end(node, methods, slash, exact_slash)
            if endpoint is not None:
                return endpoint
        return None

    def _add(self, route: Route) -> None:
        split = split_template(route.path)
        node = self._root
        for segment in split.segments:
            if segment.startswith("{"):
                node.variable = node.variable or _Node()
                node = node.variable
            else:
                node = node.literals.setdefault(segment.lower() if self._ignore_case else segment, _Node())
        ends = node.ends_with_slash if split.slash else node.ends
        ends.setdefault(route.method, route.endpoint)
        self._depth = max(self._depth, len(split.segments))

    def _leaves(self, segments: Sequence[str]) -> Iterator[_Node]:
        last = len(segments)
        waiting: list[tuple[_Node, int]] = []
        node: _Node | None = self._root
        at = 0
        while True:
            while node is not None and at < last:
                segment = segments[at]
                at += 1
                literal = node.literals.get(segment)
                variable = node.variable if segment else None
                if literal is not None and variable is not None:
                    waiting.append((variable, at))
                node = literal or variable
            if node is not None:
                yield node
            if not waiting:
                return
            node, at = waiting.pop()


def split_template(path: str) -> SplitPath:
    inner = path[1:].removesuffix("/")
    return SplitPath(inner.split("/") if inner else [], slash=path.endswith("/") and bool(inner))


def _end(node: _Node, methods: Sequence[str], slash: bool, exact_slash: bool) -> str | None:
    first, second = (node.ends_with_slash, node.ends) if slash else (node.ends, node.ends_with_slash)
    for ends in (first,) if exact_slash else (first, second):
        for name in methods:
            if name in ends:
                return ends[name]
    return None
