"""Policy as code: one YAML document of tiers, endpoints and policies.

Only plain data: no tags, no aliases, no duplicate keys. Of YAML's special words, only `true`, `false` and
`null` are not text, so that `mode: off` stays text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import yaml

from headroom_edge.algorithms.base import ParameterError
from quotas.policies.endpoint import DeclaredEndpoint, parse_endpoint
from quotas.policies.problems import Problem, Problems, items, mapping, unknown_fields
from quotas.policies.spec import Policy
from quotas.policies.tier import DeclaredTier, parse_tier
from quotas.policies.validate import check_policies, parse_policy

DOCUMENT_FIELDS = ("tiers", "endpoints", "policies")
MOST_BYTES = 1_048_576
# A plan takes some seconds at most.
MOST_ENTRIES = {"tiers": 1_000, "endpoints": 5_000, "policies": 10_000}
LARGE = 200  # entries
MOST_TEXT = 65_536  # characters that the web process reads itself; that takes about a tenth of a second
MOST_PROBLEMS = 100  # then the search stops
DEEPEST = 12

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Document:
    tiers: tuple[DeclaredTier, ...] = ()
    endpoints: tuple[DeclaredEndpoint, ...] = ()
    policies: tuple[Policy, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)  # by path

    @property
    def entries(self) -> int:
        return len(self.tiers) + len(self.endpoints) + len(self.policies)

    @property
    def is_large(self) -> bool:
        """Whether judging it takes much longer than writing a row."""
        return self.entries > LARGE

    def line(self, path: str) -> int | None:
        """The line of the path, or of its nearest parent that the document contains."""
        return _line(path, self.lines)


class _Loader(yaml.CSafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}


for _word, _pattern, _first in (
    ("bool", r"^(?:true|false)$", "tf"),
    ("null", r"^(?:null|~|)$", ["n", "~", ""]),
    ("int", r"^[-+]?(?:0|[1-9][0-9_]{0,30})$", "-+0123456789"),
    ("float", r"^[-+]?[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)$", "-+0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_word}", re.compile(_pattern), list(_first))


def read_document(text: str) -> Document | list[Problem]:
    problem = _too_big(text) or _unsafe(text)
    if problem:
        return [problem]
    node = yaml.compose(text, Loader=_Loader)
    lines: dict[str, int] = {}
    found = _walk(node, "", lines)
    if found or node is None:
        return found or [Problem("", "empty", "the document is empty; give tiers, endpoints or policies")]
    parsed = _parse(_Loader("").construct_document(node))
    if isinstance(parsed, Document):
        return replace(parsed, lines=lines)
    return [replace(problem, line=_line(problem.path, lines)) for problem in parsed]


def _too_big(text: str) -> Problem | None:
    size = len(text.encode(errors="surrogatepass"))
    if size <= MOST_BYTES:
        return None
    return Problem("", "size", f"the document has {size:,} bytes; the maximum is {MOST_BYTES:,}. Split it")


def _unsafe(text: str) -> Problem | None:
    """Finds what would fail or use up the memory while composing. Events alone need no more memory than the text."""
    depth, started = 0, False
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            line = event.start_mark.line + 1
            if depth > DEEPEST:
                return Problem("", "depth", f"nested more than {DEEPEST} deep; a document needs far less", line)
            if isinstance(event, yaml.AliasEvent):
                return Problem("", "alias", f"alias *{event.anchor} is not accepted; write the value out", line)
            if isinstance(event, yaml.DocumentStartEvent) and event.explicit and started:
                return Problem("", "several", "this starts a second document; give one document at a time", line)
            started = started or isinstance(event, yaml.DocumentStartEvent)
            if getattr(event, "tag", None) is not None:
                return Problem("", "tag", f"tag {event.tag} is not accepted; write plain data", line)
    except UnicodeEncodeError as error:
        return _half_character(text, error.start)
    except yaml.YAMLError as error:
        return _syntax(error)
    return None


def _half_character(text: str, place: int) -> Problem:
    code = f"U+{ord(text[place]):04X}"
    message = f"the text has half of a character ({code}, a lone surrogate); write the whole character, or remove it"
    return Problem("", "yaml", message, text.count("\n", 0, place) + 1)


def _syntax(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return Problem("", "yaml", f"this is not YAML: {reason}", mark.line + 1 if mark else None)


def _walk(node: yaml.Node | None, path: str, lines: dict[str, int]) -> list[Problem]:
    """Stores the line of every path, and finds duplicate keys."""
    if node is None:
        return []
    lines.setdefault(path, node.start_mark.line + 1)
    found = []
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            found += _walk(child, f"{path}[{index}]", lines)
    elif isinstance(node, yaml.MappingNode):
        seen = set()
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                return [*found, Problem(path, "type", "a field's name must be plain text, not a list or mapping", line)]
            name = str(key.value)
            below = f"{path}.{name}" if path else name
            if name in seen:
                message = f"{name} appears twice in one mapping; remove one"
                found.append(Problem(below, "duplicate_key", message, key.start_mark.line + 1))
            seen.add(name)
            lines.setdefault(below, key.start_mark.line + 1)
            found += _walk(child, below, lines)
    return found


def _line(path: str, lines: Mapping[str, int]) -> int | None:
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path)


def _parse(raw: object) -> Document | list[Problem]:
    problems = Problems()
    fields = problems.attempt(lambda: mapping(raw, "the document"))
    if fields is None:
        return problems.found
    for unknown in unknown_fields(fields, DOCUMENT_FIELDS, "the document"):
        problems.add(unknown)
    tiers = _each(fields, "tiers", parse_tier, problems)
    endpoints = _each(fields, "endpoints", parse_endpoint, problems)
    policies = _each(fields, "policies", parse_policy, problems)
    if problems.found:
        return problems.found
    problems.found += _twice("tiers", "tier", [tier.name for tier in tiers])
    problems.found += _twice("endpoints", "endpoint", [endpoint.name for endpoint in endpoints])
    problems.found += _same_route(endpoints) + check_policies(policies)
    return problems.found or Document(tuple(tiers), tuple(endpoints), tuple(policies))


def _each(
    fields: dict[str, Any], name: str, parse: Callable[[object, str], T | list[Problem]], problems: Problems
) -> list[T]:
    parsed = []
    for index, raw in enumerate(problems.attempt(lambda: _entries(fields, name)) or ()):
        if len(problems.found) >= MOST_PROBLEMS:
            break
        value = parse(raw, f"{name}[{index}]")
        if isinstance(value, list):
            problems.found.extend(value)
        else:
            parsed.append(value)
    return parsed


def _entries(fields: dict[str, Any], name: str) -> list[Any]:
    found = items(fields.get(name) or (), name)
    if len(found) > MOST_ENTRIES[name]:
        message = f"{name} has {len(found):,} entries; the maximum is {MOST_ENTRIES[name]:,}. Split the document"
        raise ParameterError(name, message, "size")
    return found


def _twice(field: str, owner: str, names: Sequence[str]) -> list[Problem]:
    first = {name: index for index, name in reversed(list(enumerate(names)))}
    return [
        Problem(f"{field}[{index}].name", "duplicate", f"there are two {owner}s named {name}; remove or rename one")
        for index, name in enumerate(names)
        if index > first[name]
    ]


def _same_route(endpoints: Sequence[DeclaredEndpoint]) -> list[Problem]:
    first: dict[tuple[str, str], str] = {}
    found = []
    for index, endpoint in enumerate(endpoints):
        other = first.setdefault(endpoint.route, endpoint.name)
        if endpoint.path and other != endpoint.name:
            message = f"{endpoint.method} {endpoint.path} is already the route of {other}; choose another path"
            found.append(Problem(f"endpoints[{index}].path", "duplicate", message))
    return found
