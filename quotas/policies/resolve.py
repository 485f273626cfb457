"""Which limits apply to a tenant, and where each comes from: the one place that knows precedence.

The ladder, most specific first: tenant × endpoint, tenant × *, tier × endpoint, tier × *; merged by the
limit's name. A limit on `*` is one counter over all endpoints (scope `*`); a limit on an endpoint counts
that endpoint alone. Overrides are applied last: those on `*` first, then those on the endpoint, each in
order of creation. Global limits always apply and replace nothing.

State belongs to (scope, limit name, subject) whatever the source of the limit, so every limit comes with
its earlier parameters (`since_us`, `past`), across edits, overrides, moves and policies of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from headroom_edge.algorithms.base import ParameterError
from quotas.policies.layers import Layers
from quotas.policies.limit_codec import fitting, limit_fields, limit_parse
from quotas.policies.spec import EVERYWHERE, PAST_GENERATIONS, Carry, Generation, Handover, Limit, Override, Policy

FOREVER_US = 2**53


@dataclass(frozen=True, slots=True)
class Effective:
    """A limit that applies, with its whole history."""

    limit: Limit
    scope: str  # `*`, an endpoint, or (global only) a service: `payments:*`
    source: str  # of the policy: `tier pro × *`; of the override, for a limit that no policy has
    overrides: tuple[int, ...] = ()  # ids of those that changed it, in the order of application
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class Resolved:
    """All limits of one tenant or one tier at one time, without the global ones (`globals_at`)."""

    everywhere: tuple[Effective, ...]  # scope `*`
    own: Mapping[str, tuple[Effective, ...]]  # endpoint → the limits of that scope; never empty

    def at(self, endpoint: str) -> tuple[Effective, ...]:
        """The limits of an endpoint. Its own replace those of the same name on `*`."""
        own = self.own.get(endpoint, ())
        replaced = {effective.limit.name for effective in own}
        return own + tuple(e for e in self.everywhere if e.limit.name not in replaced)


class Moment(NamedTuple):
    """From `from_us` until the next moment, `resolve(layers, at_us)` is what applies."""

    from_us: int
    at_us: int


def moments(layers: Layers) -> tuple[Moment, ...]:
    """The times at which an override starts or ends; the first moment starts at 0.

    `at_us` is a moment's last microsecond: edits take effect when they are published, so every edit lies
    before the end of each moment that Lua's clock can still reach.
    """
    starts = sorted({0, *(us for override in layers.overrides for us in _edges(override))})
    ends = [*starts[1:], FOREVER_US]
    return tuple(Moment(start, end - 1) for start, end in zip(starts, ends, strict=True))


def resolve(layers: Layers, at_us: int) -> Resolved:
    own = {scope: _scope(layers, scope, at_us) for scope in sorted(layers.endpoints())}
    everywhere = own.pop(EVERYWHERE)
    return Resolved(everywhere, {scope: limits for scope, limits in own.items() if limits})


def global_scopes(endpoint: str) -> tuple[str, ...]:
    """The scopes whose global limits apply to an endpoint, or wherever a scope does; the narrowest first."""
    if endpoint == EVERYWHERE:
        return (EVERYWHERE,)
    return tuple(dict.fromkeys((endpoint, endpoint.partition(":")[0] + ":*", EVERYWHERE)))


def globals_at(policies: Mapping[str, Policy], endpoint: str) -> tuple[Effective, ...]:
    """The global limits of an endpoint: its own, its service's and everyone's. `*`: everyone's only."""
    found = (policies[scope] for scope in global_scopes(endpoint) if scope in policies)
    return tuple(
        Effective(limit, policy.endpoint, policy.source, is_global=True) for policy in found for limit in policy.limits
    )


def history(layers: Layers, scope: str, name: str, at_us: int = FOREVER_US) -> tuple[Generation, ...]:
    """A limit's parameters over time without overrides, newest first. Empty: there is no such limit."""
    ladder = layers.ladder(scope, name)
    if not ladder or ladder[0].policy.endpoint != scope:
        return ()
    limit, policy = ladder[0].limit, ladder[0].policy
    generations = (Generation(limit.algorithm, limit.since_us, limit.carry), *limit.past)
    handover = next((h for h in layers.handovers if (h.scope, h.limit) == (scope, name)), None)
    if handover and policy.tenant is None:
        generations = _handed_over(generations, handover)
    return tuple(g for g in generations if g.since_us <= at_us) or generations[-1:]


def _handed_over(generations: tuple[Generation, ...], handover: Handover) -> tuple[Generation, ...]:
    later = tuple(g for g in generations if g.since_us > handover.since_us)
    if len(later) == len(generations):  # the limit is newer than the handover
        return generations
    first = replace(generations[len(later)], since_us=handover.since_us, carry=handover.carry)
    return (*later, first, *handover.past)


class _LimitStep(NamedTuple):
    since_us: int
    carry: Carry
    limit: Limit | None
    source: str
    overrides: tuple[int, ...]


def _scope(layers: Layers, scope: str, at_us: int) -> tuple[Effective, ...]:
    found = (_effective(list(_steps(layers, scope, name, at_us)), scope) for name in layers.names(scope))
    return tuple(effective for effective in found if effective)


def _effective(steps: list[_LimitStep], scope: str) -> Effective | None:
    """The last step, with the generations that lead to it without a gap."""
    limit = steps[-1].limit
    if limit is None:
        return None
    generations: list[Generation] = []
    for step in steps:
        if step.limit is None:
            generations.clear()
        elif not generations or generations[-1].algorithm != step.limit.algorithm:
            generations.append(Generation(step.limit.algorithm, step.since_us, step.carry))
    now, *past = reversed(generations)
    whole = replace(limit, since_us=now.since_us, carry=now.carry, past=tuple(past[:PAST_GENERATIONS]))
    return Effective(whole, scope, steps[-1].source, steps[-1].overrides)


def _steps(layers: Layers, scope: str, name: str, at_us: int) -> Iterator[_LimitStep]:
    """The limit after each change of it, oldest first."""
    carries: dict[int, Carry] = {}
    for generation in _base_history(layers, scope, name, at_us):
        carries[generation.since_us] = generation.carry
    for override in layers.overrides:
        if override.endpoint in (scope, EVERYWHERE):
            carries.update({us: override.carry for us in _edges(override) if us <= at_us})
    for since_us in sorted(carries or {0: "keep"}):
        limit, source, overrides = limit_at(layers, scope, name, since_us)
        yield _LimitStep(since_us, carries.get(since_us, "keep"), limit, source, overrides)


def _base_history(layers: Layers, scope: str, name: str, at_us: int) -> tuple[Generation, ...]:
    """History of the limit itself, or of the one on `*` that an override of this endpoint starts from."""
    ladder = layers.ladder(scope, name)
    return history(layers, ladder[0].policy.endpoint, name, at_us) if ladder else ()


def limit_at(layers: Layers, scope: str, name: str, at_us: int) -> tuple[Limit | None, str, tuple[int, ...]]:
    """The limit with its overrides at that time, without history."""
    ladder = layers.ladder(scope, name)
    base: Limit | None = None
    source = ""
    if ladder:
        source = ladder[0].policy.source
        algorithm = history(layers, ladder[0].policy.endpoint, name, at_us)[0].algorithm
        base = replace(ladder[0].limit, algorithm=algorithm)
    is_here = base is not None and ladder[0].policy.endpoint == scope
    used: list[int] = []
    for override in _active(layers, scope, at_us):
        touched = _overridden(base, override, scope, name, is_here)
        if touched is not None:
            base, is_here = touched, is_here or override.endpoint == scope
            used.append(override.id)
    return (base if is_here else None), source or f"override {used[0] if used else ''}", tuple(used)


def _active(layers: Layers, scope: str, at_us: int) -> list[Override]:
    """Overrides that can change a limit of the scope, in the order of application."""
    active = [o for o in layers.overrides if o.endpoint in (scope, EVERYWHERE) and _is_active(o, at_us)]
    return sorted(active, key=lambda o: (o.endpoint != EVERYWHERE, o.id))


def _overridden(base: Limit | None, override: Override, scope: str, name: str, is_here: bool) -> Limit | None:
    """None: the override does not touch this limit.

    `is_here` is false while `base` is still the limit of `*` that the endpoint falls back to. Overrides of `*`
    then apply to it as they do on `*`; an override of the endpoint must name it to make it the endpoint's own.
    """
    on_star = scope != EVERYWHERE and override.endpoint == EVERYWHERE
    try:
        if name in override.limits and not (on_star and is_here):
            return merged(name, base, override.limits[name])
        if override.multiplier and base and (is_here or on_star):
            return scaled(base, *override.multiplier)
    except PatchError:
        # `override_problem` refused it when it was written; one of a past period may no longer fit.
        return None
    return None


def _is_active(override: Override, at_us: int) -> bool:
    return override.start_us <= at_us and (override.end_us is None or at_us < override.end_us)


def _edges(override: Override) -> tuple[int, ...]:
    return (override.start_us,) if override.end_us is None else (override.start_us, override.end_us)


class PatchError(ValueError):
    """The override does not fit the limit. The message names the field and says what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def merged(name: str, base: Limit | None, patch: Mapping[str, Any]) -> Limit:
    """The patch over the base's fields. A patch with another algorithm must bring all of its parameters."""
    fields: dict[str, Any] = {}
    if base is not None:
        fields = limit_fields(base)
        if patch.get("algorithm", base.algorithm.name) != base.algorithm.name:
            fields = {key: value for key, value in fields.items() if key not in base.algorithm.describe()}
            fields = fitting({**fields, "algorithm": patch["algorithm"]})
    try:
        limit = limit_parse(name, {**fields, **patch})
    except ParameterError as error:
        between = "." if error.message.startswith(error.field) else ": "
        raise PatchError(error.field, f"limits.{name}{between}{error.message}") from None
    return replace(limit, candidate=base.candidate) if base is not None else limit


def scaled(limit: Limit, numerator: int, denominator: int) -> Limit:
    try:
        return replace(limit, algorithm=limit.algorithm.scaled(numerator, denominator))
    except ParameterError as error:
        raise PatchError("multiplier", f"{limit.name} × {numerator}/{denominator}: {error.message}") from None
