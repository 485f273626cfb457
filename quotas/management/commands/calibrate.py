from __future__ import annotations

import getpass
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from headroom_edge.algorithms.base import counted
from headroom_edge.algorithms.sharing import Borrowing
from quotas.management.progress_bar import ProgressBar
from quotas.models import Recommendation
from quotas.pools.demand import busiest_members, demand_proposal
from quotas.pools.queries import pool_read
from quotas.recommendations.pool_proposal import MemberProposal, Outcome, PoolProposal
from quotas.recommendations.runs import calibration_now


class Command(BaseCommand):
    help = "Compare every limit with the recorded usage, and file recommendations with a forecast."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--pool",
            metavar="POLICY/LIMIT",
            help="print which shares this pool's measured demand calls for, with a forecast, and write nothing",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["pool"]:
            self._propose(options["pool"])
        else:
            self._run()

    def _run(self) -> None:
        bar = ProgressBar(self.stderr)
        try:
            task = calibration_now(author=getpass.getuser(), progress=bar.show)
        finally:
            bar.end()
        found = task.result
        if found is None:
            raise CommandError(task.problem)
        self.stdout.write(
            f"{counted(found['limits'], 'limit')}: {found['fitting']} fit, {found['idle']} without traffic, "
            f"{found['insufficient']} with too little traffic, "
            f"{counted(len(found['proposed']), 'recommendation')}"
        )
        for one in found["skipped"]:
            self.stdout.write(f"  skipped {one['limit']} of {one['policy']}: {one['why']}")
        for row in Recommendation.objects.filter(pk__in=found["proposed"]).order_by("id"):
            self.stdout.write(f"  {row.pk}  {row.trust:<6}  {row.summary}")

    def _propose(self, name: str) -> None:
        policy, _, limit = name.partition("/")
        pool = pool_read(policy, limit)
        if pool is None:
            raise CommandError(
                f"policy {policy} has no pool {limit or '(name it after a slash)'}; see `policy export`."
            )
        for line in proposal_lines(limit, demand_proposal(pool, busiest_members(pool))):
            self.stdout.write(line)


def proposal_lines(name: str, found: PoolProposal) -> Iterator[str]:
    yield f"{name}: {found.pool.words()}"
    if found.proposed != found.pool:
        yield f"  reserve {found.pool.reserve:,} → {found.proposed.reserve:,}"
    for warning in found.warnings:
        yield f"  warning: {warning}"
    if found.forecast:
        yield f"  {found.forecast.sentence}"
    for one in found.members:
        yield from _member_lines(one)


def _member_lines(one: MemberProposal) -> Iterator[str]:
    now = _numbers(one.member.share)
    yield f"  {one.member.tenant}: {now}{f' → {_numbers(one.proposed)}' if one.proposed else ''}"
    for reason in one.reasons:
        yield f"    {reason}"
    if one.now and one.then:
        yield f"    replayed now: {_outcome(one.now)}; then: {_outcome(one.then)}"


def _numbers(share: Borrowing) -> str:
    return f"{share.words().partition(', borrows')[0]}, ceiling {share.ceiling:,}" if share.ceiling else share.words()


def _outcome(found: Outcome) -> str:
    causes = ", ".join(f"{units:,} by {cause}" for cause, units in found.denied_by.items() if units)
    denied = f"{found.denied:,} denied ({causes})" if causes else "none denied"
    return f"{found.borrowed:,} of {found.asked:,} borrowed, {denied}"
