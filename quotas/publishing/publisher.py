"""Publishes the configuration from Postgres to Redis.

A pass may die at any step; the next pass, in this process or another, completes it. Postgres is the truth, the outbox
lists what is not published yet, and a shard's token says which content Redis holds. A revision gets its Redis time
once, before it is published, so that counters carry over at the same moment even if publishing is repeated.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from functools import partial

import redis
from django.utils import timezone

from headroom_edge import keys
from quotas import metrics
from quotas.models.revision import AuditEvent, newest_revision_number, revisions_stamp
from quotas.outbox import EVERY_KEY, PendingWork, pending_work_delete, pending_work_read
from quotas.policies.compile import Compiler, Owner, Target
from quotas.policies.configuration import configuration_load, configuration_part, one_moment
from quotas.policies.plans import month_start_us
from quotas.policies.shard_image import Delta, Image
from quotas.policies.spec import Configuration
from quotas.publishing import store
from quotas.publishing.calendar_restore import restore_counters
from quotas.publishing.factors import loops_of, touches_loops
from quotas.publishing.gateway_tables import ApiKeyIndex, RouteTable
from quotas.publishing.last_good import restore_last_good
from quotas.publishing.shards import Shards, SupersededError, digest_of

logger = logging.getLogger(__name__)

# Larger deltas are staged instead, because one long call would delay the checks of its shard.
DELTA_MAX = 1_000
# Characters of the deltas of one transaction; more are staged. It delays all checks, by about 10 ms at most.
TOGETHER_MAX = 1_000_000


class PublishStep(IntEnum):
    """The steps of a pass, in order."""

    READ = 1  # the outbox
    STAMPED = 2  # new revisions have their time, not yet committed
    LOADED = 3  # the touched part is loaded, and the times are committed
    INDEXED = 4  # API keys are in Redis
    COMPILED = 5
    APPLIED = 6  # deltas are applied to the shards that had their base
    STAGED = 7  # a batch of whole shards is staged beside the live ones
    REPLACED = 8  # all shards that no delta fitted are replaced
    SETTLED = 9  # the outbox rows are deleted


Observer = Callable[[PublishStep], None]


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Turns garbage collection off, and exempts what was loaded from it.

    A whole configuration is a million objects without a cycle; scanning them would delay every later edit.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Publisher:
    def __init__(self, client: redis.Redis, shards: int, observer: Observer = lambda _: None) -> None:
        self.shards = Shards(
            client, shards, on_batch=lambda: observer(PublishStep.STAGED), on_lost=partial(restore_counters, client)
        )
        self.api_keys = ApiKeyIndex(client, shards)
        self.routes = RouteTable(client)
        self.is_loaded = False
        self._client = client
        self._step = observer
        self._compiler = Compiler(self._target(is_clustered=False), 0)
        self._is_in_doubt = True  # Redis may not hold the image of the last pass
        self.applied: int | None = None  # the newest revision that all shards have; None: not known yet
        self._errors: list[redis.RedisError] = []  # of this pass, in a cluster
        self._known_problems: Mapping[Owner, str] = {}
        self.loops: Mapping[str, str] | None = None  # of limits that adapt, by endpoint; None: not known yet

    @property
    def image(self) -> Image:
        """What Redis must hold. Empty before the first pass."""
        return self._compiler.image

    def forget(self) -> None:
        """Discards what was loaded, because another process may have published. The next pass reloads everything."""
        self.is_loaded = False
        self._is_in_doubt = True

    def publish(self, now_us: int | None = None) -> bool:
        """Runs one pass, at Redis' time by default; returns whether there was anything to do.

        If a node of a cluster is away, the others get everything, and the pass fails at its end.
        """
        self._errors = []
        self.shards.begin()
        now_us = now_us or store.now_us(self._client)
        if self._compiler.month_us != month_start_us(now_us):
            self.forget()
        with self._going_on():
            self.api_keys.remove_ended(now_us)
        work, parts = self._read(now_us)
        if not work and not self._is_in_doubt:
            self._refuse_errors()
            return False
        # Keys first: a revoked key must not wait for a compilation.
        with self._going_on():
            self.api_keys.publish(work.api_keys, now_us)
        self._step(PublishStep.INDEXED)
        is_changed, deltas = parts is not None, self._compile(parts, work, now_us)
        del parts  # all tenants, perhaps: the compiler has its own index of them
        try:
            with self._going_on():
                self._send(deltas)
        except SupersededError:
            self.forget()
            raise
        if is_changed or EVERY_KEY in work.api_keys:
            with self._going_on():
                self.routes.publish()
        self._refuse_errors()
        pending_work_delete(work)
        self.applied = self.image.revision
        self._step(PublishStep.SETTLED)
        self._report(work)
        return True

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        try:
            yield
        except redis.RedisError as error:
            if store.as_cluster(self._client) is None:
                raise
            self._errors.append(error)

    def _refuse_errors(self) -> None:
        if self._errors:
            # Whatever it was that failed, the next pass compares everything.
            self._is_in_doubt = True
            raise self._errors[0]

    def _read(self, now_us: int) -> tuple[PendingWork, Configuration | None]:
        """Reads in one snapshot, so that only the touched parts differ from what was loaded before."""
        with one_moment():
            work = pending_work_read()
            self._step(PublishStep.READ)
            if work.revisions:
                revisions_stamp(now_us)
                self._step(PublishStep.STAMPED)
            if self._has_missed(work):
                self.forget()
            parts = self._load(work)
        self._step(PublishStep.LOADED)
        return work, parts

    def _has_missed(self, work: PendingWork) -> bool:
        """Whether another process published a revision that the image lacks. Revision numbers have no gaps."""
        return not work.revisions.issuperset(range(self.image.revision + 1, newest_revision_number() + 1))

    def _load(self, work: PendingWork) -> Configuration | None:
        if not self.is_loaded or work.is_everything:
            with _without_collecting():
                return configuration_load()
        if not work.revisions:
            return None
        return configuration_part(tenants=work.touched.tenants, tiers=work.touched.tiers)

    def _compile(self, parts: Configuration | None, work: PendingWork, now_us: int) -> dict[int, Delta]:
        if parts is None:
            return {}
        was_loaded, self.is_loaded = self.is_loaded, False  # stays False if the compilation fails half-way
        if not was_loaded:
            deltas = self._compile_anew(parts, now_us)
        elif work.is_everything:
            deltas = self._compiler.load(parts)
        else:
            deltas = self._compiler.update(parts, work.touched)
        self.is_loaded = True
        if self.loops is None or any(touches_loops(delta.config) for delta in deltas.values()):
            self.loops = loops_of(self.image)
        self._step(PublishStep.COMPILED)
        return deltas

    def _compile_anew(self, configuration: Configuration, now_us: int) -> dict[int, Delta]:
        self._compiler = Compiler(self._target(store.is_clustered(self._client)), now_us)
        with _without_collecting():
            self._compiler.load(configuration)
        restore_last_good(self._compiler, self._client, self.shards.count)
        return self._compiler.seal()

    def _target(self, is_clustered: bool) -> Target:
        count = self.shards.count
        return Target(count, lambda tenant: keys.shard_of(tenant, count), keys.shard_prefix, is_clustered)

    def _send(self, deltas: Mapping[int, Delta]) -> None:
        """After an error Redis is in doubt: the next pass compares every shard before it writes."""
        was_in_doubt, self._is_in_doubt = self._is_in_doubt, True
        behind = self._outdated() if was_in_doubt else set(deltas)
        if store.as_cluster(self._client) is None and (was_in_doubt or self._compiler.are_globals_changed):
            # Every shard judges the records of global limits by its own plans: no two may differ.
            behind = self._change_together({} if was_in_doubt else deltas, behind)
        elif not was_in_doubt:
            behind = self._apply(deltas)
        self.rewrite(behind)
        self._step(PublishStep.REPLACED)
        self.shards.refuse_away()
        self._is_in_doubt = False

    def _apply(self, deltas: Mapping[int, Delta]) -> set[int]:
        small = {shard: delta for shard, delta in deltas.items() if delta.size <= DELTA_MAX}
        behind = (deltas.keys() - small.keys()) | self.shards.apply(small)
        self._step(PublishStep.APPLIED)
        return behind

    def _change_together(self, deltas: Mapping[int, Delta], changed: set[int]) -> set[int]:
        """Returns the shards that are to be replaced nevertheless."""
        small = {shard: delta for shard, delta in deltas.items() if delta.size <= DELTA_MAX}
        if sum(delta.length for delta in small.values()) > TOGETHER_MAX:
            small = {}
        images = self.image.numbered
        behind = self.shards.change_together(small, {shard: images[shard] for shard in sorted(changed - small.keys())})
        self._step(PublishStep.APPLIED)
        return behind

    def _outdated(self) -> set[int]:
        """The shards whose content differs from the image. An older revision with the same digest is fine."""
        found = self.shards.read_reachable()
        self._distrust({shard: held.revision for shard, held in found.items()})
        behind, images = set(), self.image.numbered
        for shard, held in found.items():
            image = images[shard]
            if held.digest == digest_of(image.token) and held.revision <= self.image.revision:
                image.adopt(held.revision)
            else:
                behind.add(shard)
        return behind

    def _distrust(self, revisions: Mapping[int, int]) -> None:
        """Takes the token from shards with a revision that does not exist: Postgres was restored from a backup."""
        newest = newest_revision_number()
        ahead = [shard for shard, revision in revisions.items() if revision > newest]
        if ahead:
            detail = {"shards": ahead, "cause": f"a revision above {newest}, the newest"}
            AuditEvent.objects.create(kind="shard_distrusted", detail=detail)
            self.shards.unready(ahead)

    def rewrite(self, shards: Iterable[int]) -> None:
        images = self.image.numbered
        self.shards.replace({shard: images[shard] for shard in sorted(shards)})

    def _report(self, work: PendingWork) -> None:
        metrics.PUBLISHED_REVISION.set(self.applied or 0)
        if work.oldest:
            metrics.PUBLISH_LAG_SECONDS.observe((timezone.now() - work.oldest).total_seconds())
        problems = dict(self._compiler.problems)
        metrics.COMPILE_PROBLEMS.set(len(problems))
        for owner, problem in problems.items():
            if self._known_problems.get(owner) != problem:
                self._report_problem(owner, problem)
        self._known_problems = problems

    def _report_problem(self, owner: Owner, problem: str) -> None:
        logger.error("%s does not compile; the last good version stays in force: %s", owner, problem)
        detail = {"object": str(owner), "problem": problem, "revision": self.image.revision}
        AuditEvent.objects.create(kind="does_not_compile", detail=detail)
