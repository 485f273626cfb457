"""Compiles a configuration to the image that Redis must hold, edit by edit. Pure.

The entry of a tenant without limits of its own only names its tier, whose set of plans every shard holds
once. So an edit of a tier rewrites that set and the tenants with limits of their own, not all its tenants.

A part that does not compile keeps its last good state and is reported; everything else is updated.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple

from headroom_edge.keys import EVERYONE, EVERYONES_SHARD, EVERYONES_TENANT, base36, tenant_number
from quotas.policies.configuration_index import UTC, Book, Touched
from quotas.policies.enforceable import endpoint_problem, global_problem
from quotas.policies.layers import Layers
from quotas.policies.plans import PlanWriter, Terms, content_name, month_start_us
from quotas.policies.problems import CompileError
from quotas.policies.resolve import Resolved, global_scopes, moments, resolve
from quotas.policies.shard_image import TABLE_FIELD, TABLE_VALUE, Delta, Image, ShardImage, canonical
from quotas.policies.spec import Configuration, Policy, Tenant

TENANT_NUMBER_MAX = 36**5 - 1
CANARY = "~"  # after the tier's number, in entries of tenants that a canary includes
# At the home of global limits, the subjects of all tenants share the cap that each tenant has elsewhere.
HOME_CAP = 100
NUMBER_WIDTH = 5  # an entry begins with the tenant's number


@dataclass(frozen=True, slots=True)
class Target:
    """Where the image goes."""

    shards: int
    shard_of: Callable[[str], int]
    prefix_of: Callable[[int], str]
    clustered: bool = False


class Owner(NamedTuple):
    """What a problem is about. Only this keeps its last good state."""

    kind: Literal["tenant", "tier", "endpoint", "global"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Piece:
    """What one tier in one time zone, or one tenant with limits of its own, needs in a shard."""

    ref: str  # of a tier: the set's name; of a tenant: the text of its entry
    fields: Mapping[str, str]


class Compiler:
    """`image` is what Redis must hold; `update` returns how it differs from before."""

    def __init__(self, target: Target, now_us: int) -> None:
        self.month_us = month_start_us(now_us)
        home = ShardImage() if target.clustered else None
        self.image = Image(0, [ShardImage() for _ in range(target.shards)], home)
        for shard in self.image.shards:
            shard.put_entry(TABLE_FIELD, TABLE_VALUE)
        self.problems: dict[Owner, str] = {}
        self.are_globals_changed = False  # by the last update: shards that differ judge one record by different rules
        self._target = target
        self._book = Book(self.month_us)
        self._terms = Terms.of({}, {}, self.month_us)
        self._endpoints = Piece("", {})
        self._home = Piece("", {})
        self._tiers: dict[str, dict[str, Piece]] = {}  # tier → what an entry says (`t2`, `t2@Asia/Kolkata`) → piece
        self._own: dict[str, Piece] = {}  # tenant → piece

    def load(self, configuration: Configuration) -> dict[int, Delta]:
        """A whole configuration: what is not in it is dropped."""
        # A view, not a set: it takes no memory, and its order is that of the tenants in memory, which is faster.
        tenants: Set[str] = configuration.tenants.keys()
        if not self._book.tenants.keys() <= tenants:
            tenants = tenants | self._book.tenants.keys()
        return self.update(configuration, Touched(tenants, frozenset({*self._tiers, *configuration.tiers}), True))

    def update(self, parts: Configuration, touched: Touched) -> dict[int, Delta]:
        """Compiles what was touched, which is all that `parts` must hold. Returns the deltas by shard."""
        book = self._book
        left = {tenant.tier for tenant in book.known(touched.tenants)}
        zoned = set(book.zoned_tiers)
        canaries = {tier: book.canary(tier) for tier in touched.tiers}
        book.absorb(parts, touched)
        globals_before = self._terms.globals
        if touched.common:
            self._compile_common()
        self.are_globals_changed = self._terms.globals != globals_before
        edited = set(touched.tiers) | (book.tiers.keys() if touched.common else set())
        # Apart from the touched ones, which may be all there are: a copy of their names would take as much again.
        others = set[str]().union(*(book.customised(tier) for tier in edited))
        others.update(*(book.zoned(tier) for tier in zoned ^ book.zoned_tiers))
        others.update(*(book.moved_by(canary, tier) for tier, canary in canaries.items()))
        others -= touched.tenants
        joined = {tenant.tier for tenant in book.known(touched.tenants)}
        for tier in edited | left | joined:
            self._compile_tier(tier, is_edited=tier in edited)
        alike: dict[tuple[object, ...], Piece] = {}
        for name in chain(touched.tenants, others):
            self._compile_tenant(name, alike)
        return self.seal()

    def seal(self) -> dict[int, Delta]:
        main = canonical(self._main())
        self.image.revision = self._book.revision
        deltas = {number: shard.seal(self._book.revision, main) for number, shard in enumerate(self.image.shards)}
        if self.image.home is not None:
            deltas[EVERYONES_SHARD] = self.image.home.seal(self._book.revision, canonical(self._home_main()))
        return {number: delta for number, delta in deltas.items() if delta is not None}

    def lost(self) -> list[Owner]:
        """Tiers and tenants that do not compile and have no last good state here."""
        return [owner for owner in self.problems if self._is_lost(owner)]

    @property
    def is_home_lost(self) -> bool:
        """Whether a global policy does not compile of which nothing good is known here."""
        return self.image.home is not None and bool(self._book.globals.keys() - self._terms.globals.keys())

    def restore_home(self, entry: str, fields: Mapping[str, str]) -> None:
        """Call `seal` when all is restored."""
        if self.image.home is not None:
            before, self._home = self._home, Piece(entry[NUMBER_WIDTH:], fields)
            self.image.home.use(fields)
            self.image.home.leave(before.fields)
            self.image.home.put_entry(EVERYONE, entry)

    def _is_lost(self, owner: Owner) -> bool:
        if owner.kind == "tier":
            return owner.name not in self._tiers
        return owner.kind == "tenant" and owner.name not in self._shard(owner.name).entries

    def restore_tier(self, name: str, pieces: Mapping[str, Piece]) -> None:
        """`pieces` by what entries say. Call `seal` when all is restored."""
        number = self._book.tiers[name].number
        mine = {ref: piece for ref, piece in pieces.items() if ref.partition("@")[0].rstrip(CANARY) == f"t{number}"}
        self._share_all(self._tiers.get(name, {}), mine)
        self._tiers[name] = mine

    def restore_tenant(self, name: str, entry: str, fields: Mapping[str, str]) -> None:
        """`fields`: what the entry's sets need, if it has sets of its own."""
        self._shard(name).put_entry(name, entry)
        self._keep_own(name, Piece(entry, fields) if fields else None)

    def _shard(self, tenant: str) -> ShardImage:
        return self.image.shards[self._target.shard_of(tenant)]

    def _main(self) -> dict[str, object]:
        main: dict[str, object] = {
            "endpoints": self._endpoints.ref,
            "tiers": {ref: piece.ref for pieces in self._tiers.values() for ref, piece in pieces.items()},
            "cap": self._book.subject_cap,
            "sample": self._book.sample_per_1024,
            "room": self._book.usage_room,
            "shards": self._target.shards,
        }
        stand_in = self._book.unknown_tenant
        # In a cluster its shard may lie on another server: there, unknown tenants are denied.
        if stand_in in self._book.tenants and not self._target.clustered:
            main["unknown"] = [self._target.prefix_of(self._target.shard_of(stand_in)), stand_in]
        return main

    def _home_main(self) -> dict[str, object]:
        return {
            "endpoints": self._endpoints.ref,
            "tiers": {},
            "cap": self._book.subject_cap * HOME_CAP,
            "sample": 0,  # subjects are sampled in their tenant's shard
            "room": self._book.usage_room,
            "shards": self._target.shards,
        }

    def _compile_common(self) -> None:
        """Updates what is in every plan: endpoints and global policies."""
        for owner in [owner for owner in self.problems if owner.kind in ("endpoint", "global")]:
            del self.problems[owner]
        endpoints = {
            name: endpoint
            for name, endpoint in self._book.endpoints.items()
            if self._is_good(Owner("endpoint", name), endpoint_problem(endpoint))
        }
        last_good = self._terms.globals
        self._terms = Terms.of(endpoints, self._book.limit_numbers, self.month_us)
        self._terms = self._terms.with_globals(self._good_globals(last_good))
        self._terms = replace(self._terms, are_globals_elsewhere=self._target.clustered)
        text = canonical({name: [base36(e.number, 3), e.default_cost] for name, e in endpoints.items()})
        before, self._endpoints = self._endpoints, Piece(content_name(text), {f"e:{content_name(text)}": text})
        self._share(before.fields, self._endpoints.fields)
        if self.image.home is not None:
            self._compile_home(self.image.home, before)

    def _compile_home(self, home: ShardImage, endpoints: Piece) -> None:
        """Global limits as the plans of a tenant of their own. `endpoints`: those that were in force before."""
        home.use(self._endpoints.fields)
        home.leave(endpoints.fields)
        if self.is_home_lost:
            return  # what is known of it stays in force, as with every other part that does not compile
        writer = PlanWriter(replace(self._terms, are_globals_elsewhere=False), UTC)
        name = writer.write_set(Resolved((), {}))
        before, self._home = self._home, Piece(canonical({"s": name}), writer.fields)
        home.use(self._home.fields)
        home.leave(before.fields)
        home.put_entry(EVERYONE, tenant_number(EVERYONES_TENANT) + self._home.ref)

    def _good_globals(self, last_good: Mapping[str, Policy]) -> dict[str, Policy]:
        """The widest scopes first: a limit may borrow from one of a wider scope."""
        good = {scope: policy for scope, policy in last_good.items() if scope in self._book.globals}
        for scope in sorted(self._book.globals, key=lambda scope: len(global_scopes(scope))):
            policy = self._book.globals[scope]
            wider = {other: good[other] for other in global_scopes(scope)[1:] if other in good}
            if self._is_good(Owner("global", scope), global_problem(policy, self._terms, wider)):
                good[scope] = policy
        return good

    def _is_good(self, owner: Owner, problem: str) -> bool:
        if problem:
            self.problems[owner] = problem
        return not problem

    def _writer(self, zone: str, highest: str) -> PlanWriter:
        # Plans compiled without a limit that protects a backend would lift that limit.
        if missing := self._book.globals.keys() - self._terms.globals.keys():
            raise CompileError(f"global × {min(missing)} does not compile; correct it first")
        return PlanWriter(self._terms, zone, highest)

    def _compile_tier(self, name: str, *, is_edited: bool) -> None:
        """Of an unedited tier, only adds what is missing: a tenant may be the first of its time zone."""
        is_bad = self.problems.pop(Owner("tier", name), None)
        before = self._tiers.get(name, {})
        try:
            after = self._tier_pieces(name, {} if is_edited or is_bad else before)
        except CompileError as error:
            self.problems[Owner("tier", name)] = str(error)
            return
        self._share_all(before, after)
        self._tiers[name] = after
        if not after:
            del self._tiers[name]

    def _share_all(self, before: Mapping[str, Piece], after: Mapping[str, Piece]) -> None:
        for ref in after.keys() | before.keys():
            self._share(_fields(before.get(ref)), _fields(after.get(ref)))

    def _tier_pieces(self, name: str, known: Mapping[str, Piece]) -> dict[str, Piece]:
        tier = self._book.tiers.get(name)
        if tier is None:
            return {}
        zones = [UTC, *sorted(self._book.zones(name))] if name in self._book.zoned_tiers else [UTC]
        sides = (False, True) if self._book.canary(name) else (False,)
        refs = {_tier_ref(tier.number, zone, side): (zone, side) for zone in zones for side in sides}
        return {ref: known.get(ref) or self._tier_piece(name, zone, side) for ref, (zone, side) in refs.items()}

    def _tier_piece(self, name: str, zone: str, is_canary: bool) -> Piece:
        layers = _readable(Layers(self._book.tier_policies(name, is_canary), highest=self._book.tier_priority(name)))
        writer = self._writer(zone, layers.highest)
        return Piece(writer.write_set(resolve(layers, moments(layers)[-1].at_us)), writer.fields)

    def _share(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        if before.keys() != after.keys():
            for shard in self.image.shards:
                shard.use(after)
                shard.leave(before)

    def _compile_tenant(self, name: str, alike: dict[tuple[object, ...], Piece]) -> None:
        """`alike`: pieces of tenants that were moved together, which differ in nothing but their names."""
        if self.problems:
            self.problems.pop(Owner("tenant", name), None)
        tenant = self._book.tenants.get(name)
        if tenant is None:
            self._shard(name).drop_entry(name)
            self._keep_own(name, None)
            return
        try:
            is_custom = self._book.is_customised(tenant) and not tenant.suspended
            piece = self._own_piece(tenant, alike) if is_custom else None
            entry = self._entry(tenant, piece)
        except CompileError as error:
            self.problems[Owner("tenant", name)] = str(error)
            return
        self._shard(name).put_entry(name, entry)
        self._keep_own(name, piece)

    def _entry(self, tenant: Tenant, piece: Piece | None) -> str:
        if not 0 < tenant.number <= TENANT_NUMBER_MAX:
            raise CompileError(f"number {tenant.number} is not from 1 to {TENANT_NUMBER_MAX:,}; give it another")
        number = _number(tenant.number)
        if tenant.suspended:
            return f"{number}!"
        if piece:
            return number + piece.ref
        tier = self._book.tiers.get(tenant.tier)
        if tier is None:
            raise CompileError(f"tier {tenant.tier!r} does not exist; move the tenant to another")
        zone = tenant.timezone if tenant.tier in self._book.zoned_tiers else UTC
        return number + _tier_ref(tier.number, zone, self._book.is_canary(tenant))

    def _own_piece(self, tenant: Tenant, alike: dict[tuple[object, ...], Piece]) -> Piece:
        layers = _readable(self._book.layers(tenant))
        if layers.tenant or layers.overrides:
            return self._piece(layers, tenant.timezone)
        key = (tenant.tier, self._book.is_canary(tenant), tenant.timezone, layers.handovers, layers.highest)
        if key not in alike:
            alike[key] = self._piece(layers, tenant.timezone)
        return alike[key]

    def _piece(self, layers: Layers, zone: str) -> Piece:
        """A timeline of sets, if overrides start or end. Lua picks one by its clock."""
        writer = self._writer(zone, layers.highest)
        timeline: list[tuple[int, str]] = []
        for moment in moments(layers):
            if moment.at_us < self.month_us:
                continue
            name = writer.write_set(resolve(layers, moment.at_us))
            if not timeline or timeline[-1][1] != name:
                timeline.append((moment.from_us if timeline else 0, name))
        ref = {"s": timeline[0][1]} if len(timeline) == 1 else {"x": timeline}
        return Piece(canonical(ref), writer.fields)

    def _keep_own(self, name: str, piece: Piece | None) -> None:
        before = self._own.pop(name, None)
        if piece:
            self._own[name] = piece
            self._shard(name).use(piece.fields)
        if before:
            self._shard(name).leave(before.fields)


def check_compiles(configuration: Configuration, touched: Touched, now_us: int, clustered: bool) -> dict[Owner, str]:
    """What an edit would break. `configuration` is the result of the edit, at least the touched part."""
    custom = {*(p.tenant for p in configuration.policies), *(o.tenant for o in configuration.overrides)}
    concerned = {
        name: tenant
        for name, tenant in configuration.tenants.items()
        if name in touched.tenants
        or (
            (touched.common or tenant.tier in touched.tiers) and (name in custom or tenant.handovers or tenant.priority)
        )
    }
    tiers = {name for name in configuration.tiers if touched.common or name in touched.tiers}
    tiers |= {tenant.tier for tenant in concerned.values()}
    compiler = Compiler(Target(1, lambda _: 0, str, clustered), now_us)
    compiler.update(configuration, Touched(frozenset(concerned), frozenset(tiers), common=True))
    return compiler.problems


def _readable(layers: Layers) -> Layers:
    for policy in (*layers.tier.values(), *layers.tenant.values()):
        if policy.problem:
            raise CompileError(policy.problem)
    return layers


def _fields(piece: Piece | None) -> Mapping[str, str]:
    return piece.fields if piece else {}


# Five digits from two tables: all tenants are numbered when a publisher starts.
_LAST_DIGITS = tuple(base36(number, 2) for number in range(36**2))


@lru_cache(maxsize=36**3)
def _first_digits(number: int) -> str:
    return base36(number, 3)


def _number(number: int) -> str:
    return _first_digits(number // 36**2) + _LAST_DIGITS[number % 36**2]


@lru_cache(maxsize=4_096)
def _tier_ref(number: int, zone: str, is_canary: bool) -> str:
    tier = f"t{number}{CANARY}" if is_canary else f"t{number}"
    return tier if zone == UTC else f"{tier}@{zone}"
