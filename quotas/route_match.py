"""What a route would match: which requests it gets, and which it takes from other endpoints. Nothing is written.

Headroom stores no paths of requests. Instead of those, one path is built for each registered route that the new one
meets, so that every overlap is found. Who serves a path is always asked of the enforcers' own matcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from headroom_edge.plan.paths import LONGEST_PATH, USUAL, EndpointFinder, split_path, target_path
from headroom_edge.plan.routes import ANY_METHOD, METHODS, Route, split_template
from quotas.models import Endpoint

MOST_TYPED: Final = 20
MOST_SHOWN: Final = 20
# Stand for the values of variables. No route has such a literal, as far as anybody can tell.
_VALUES: Final = ("8f21c0", "17ad93", "5be004", "c90e2b")


@dataclass(frozen=True, slots=True)
class TriedPath:
    method: str
    path: str
    before: str | None  # the endpoint that serves it now; None: only limits on * hold
    after: str | None
    variables: tuple[tuple[str, str], ...] = ()
    problem: str = ""  # why it could not be tried

    @property
    def is_taken(self) -> bool:
        return self.before is not None and self.before != self.after

    @property
    def is_lost(self) -> bool:
        """The route served it until now, and no route does afterwards."""
        return self.before is not None and self.after is None


@dataclass(frozen=True, slots=True)
class RouteMatch:
    endpoint: str
    examples: Sequence[TriedPath]  # built from the routes
    typed: Sequence[TriedPath]
    left_off: int = 0  # examples that are not listed

    @property
    def count(self) -> int:
        return sum(one.after == self.endpoint for one in (*self.examples, *self.typed))

    @property
    def total(self) -> int:
        return len(self.examples) + len(self.typed)

    @property
    def taken_from(self) -> list[str]:
        """Other endpoints that lose requests to this one."""
        lost = (one for one in (*self.examples, *self.typed) if one.after == self.endpoint)
        return sorted({one.before for one in lost if one.before not in (None, self.endpoint)})

    @property
    def given_up(self) -> list[TriedPath]:
        """What the endpoint serves now and would not serve any more."""
        return [one for one in self.examples if one.before == self.endpoint != one.after]


def routes_read() -> list[Route]:
    rows = Endpoint.objects.filter(retired=False).exclude(path="").order_by("name")
    return [Route(*row) for row in rows.values_list("name", "method", "path")]


def route_match(wanted: Route, registered: Sequence[Route], typed: Iterable[str] = ()) -> RouteMatch:
    """`wanted.endpoint` may be registered already: then it has its new route afterwards."""
    others = [route for route in registered if route.endpoint != wanted.endpoint]
    trial = _Trial(wanted, EndpointFinder(registered), EndpointFinder([*others, wanted]))
    examples = list(_distinct(trial.examples(registered)))
    lines = [line.strip() for line in typed if line.strip()]
    return RouteMatch(
        wanted.endpoint,
        examples[:MOST_SHOWN],
        [trial.typed(line) for line in lines[:MOST_TYPED]],
        max(len(examples) - MOST_SHOWN, 0),
    )


@dataclass(frozen=True, slots=True)
class _Trial:
    wanted: Route
    before: EndpointFinder
    after: EndpointFinder

    def examples(self, registered: Sequence[Route]) -> Iterator[TriedPath]:
        """The route's own path first, then those it takes, then those that others keep."""
        if not self.wanted.path:
            return
        yield self.tried(self._method(), _filled(split_template(self.wanted.path).segments))
        found = list(self._met(registered))
        yield from sorted(found, key=lambda one: (not one.is_taken, one.path, one.method))

    def _met(self, registered: Sequence[Route]) -> Iterator[TriedPath]:
        for route in registered:
            path = _common(self.wanted.path, route.path)
            if route.endpoint == self.wanted.endpoint:
                yield self.tried(_first(route.method), _filled(split_template(route.path).segments))
            elif path is not None:
                yield from self._by_method(route, path)

    def _by_method(self, route: Route, path: str) -> Iterator[TriedPath]:
        """Two routes with different methods share no request, apart from HEAD, which GET serves."""
        methods = METHODS if ANY_METHOD in (self.wanted.method, route.method) else (self.wanted.method, route.method)
        met = [
            one for one in map(partial(self.tried, path=path), dict.fromkeys(methods)) if one.before == route.endpoint
        ]
        yield from ([one for one in met if one.after == self.wanted.endpoint] or met)[:1]

    def typed(self, line: str) -> TriedPath:
        """`GET /path`, a path, or a whole URL."""
        word, _, rest = line.partition(" ")
        has_method = bool(rest) and word.upper() in METHODS
        method, text = (word.upper(), rest.strip()) if has_method else (self._method(), line)
        path = target_path(text, USUAL)
        if len(path) > LONGEST_PATH:
            return TriedPath(method, path[:60] + "…", None, None, (), f"longer than {LONGEST_PATH:,} characters")
        return self.tried(method, path)

    def tried(self, method: str, path: str) -> TriedPath:
        before, after = (finder.find(method, path, USUAL) for finder in (self.before, self.after))
        values = _values(self.wanted.path, path) if after == self.wanted.endpoint else ()
        return TriedPath(method, path, before, after, values)

    def _method(self) -> str:
        return _first(self.wanted.method)


def _first(method: str) -> str:
    return METHODS[0] if method == ANY_METHOD else method


def _filled(segments: Sequence[str]) -> str:
    """A path of the template: variables get values."""
    values = iter(range(len(segments)))
    parts = [_VALUES[next(values) % len(_VALUES)] if segment.startswith("{") else segment for segment in segments]
    return "/" + "/".join(parts)


def _common(one: str, other: str) -> str | None:
    """A path that both templates match; None if there is none."""
    left, right = split_template(one).segments, split_template(other).segments
    if not one or not other or len(left) != len(right):
        return None
    merged = []
    for a, b in zip(left, right, strict=True):
        if not a.startswith("{") and not b.startswith("{") and a.lower() != b.lower():
            return None
        merged.append(b if a.startswith("{") else a)
    return _filled(merged)


def _values(template: str, path: str) -> tuple[tuple[str, str], ...]:
    names, parts = split_template(template).segments, split_path(path, USUAL).segments
    if len(names) != len(parts):
        return ()
    return tuple((name[1:-1], part) for name, part in zip(names, parts, strict=True) if name.startswith("{"))


def _distinct(tried: Iterable[TriedPath]) -> Iterator[TriedPath]:
    seen = set()
    for one in tried:
        if (one.method, one.path) not in seen:
            seen.add((one.method, one.path))
            yield one
