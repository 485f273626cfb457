"""What the simulator shows of a shared pool: who gets what over time, and the result in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dashboards.figure import Column, Figure, FigureRow, Mark, Panel
from dashboards.pages.simulator.figures import TimeAxis
from dashboards.templatetags.numbers import number
from headroom_edge.algorithms.base import SECOND_US, counted
from headroom_edge.algorithms.bucket import rate_text
from quotas.simulation.pool_replay import BETWEEN, BORROWED, CEILING, OWN, POOL, SHARE
from quotas.simulation.sharing_run import LAST_S, LINE, SECONDS, SharerRun, SharingRun

WHOLE = 0.99  # of what a member asks for counts as all of it


@dataclass(frozen=True, slots=True)
class SharerRow:
    name: str
    asked: int
    own: int
    from_team: int
    borrowed: int
    ceiling: int
    share: int
    pool: int
    settled: str


def figure_of(run: SharingRun) -> Figure:
    axis = TimeAxis(LINE)
    names = [one.sharer.name for one in run.sharers]
    got = [one.per_second(one.allowed) for one in run.sharers]
    refused = [one.per_second(~one.allowed) for one in run.sharers]
    columns = [Column(name, "req/s", "line", str(place + 1)) for place, name in enumerate(names)]
    columns += [Column("All", "req/s", "dash", "ref")]
    columns += [Column(f"{name} denied", "req/s", "line", str(place + 1), 1) for place, name in enumerate(names)]
    rows = [
        FigureRow(
            axis.middle(step),
            [*(each[step] for each in got), sum(each[step] for each in got), *(each[step] for each in refused)],
            axis.label(step),
        )
        for step in range(LINE.steps)
    ]
    rate = run.bound - run.setup.pool.burst
    line = Mark("limit", f"pool {rate_text(rate)}/s", at=rate)
    return Figure(
        "shared",
        "Who gets what",
        f"allowed requests per second, in steps of {axis.each}",
        columns,
        rows,
        axis="number",
        x_unit=axis.unit,
        panels=(Panel("allowed, req/s", 200), Panel("denied, req/s", 96)),
        marks=[line],
        legend=[line],
        start=0,
        end=axis.end,
    )


def table_of(run: SharingRun) -> list[SharerRow]:
    return [
        SharerRow(
            one.sharer.name,
            asked=len(one.times_us),
            own=one.count(OWN),
            from_team=one.count(BETWEEN),
            borrowed=one.count(BORROWED),
            ceiling=one.count(CEILING),
            share=one.count(SHARE),
            pool=one.count(POOL),
            settled=f"{number(one.settled)}/s",
        )
        for one in run.sharers
    ]


def sentences_of(run: SharingRun) -> list[str]:
    """The result, then what the pool cannot promise."""
    return [_settled(run), *_woken(run), *_kept_waiting(run), _bound(run), *run.setup.promise.warnings]


def _settled(run: SharingRun) -> str:
    *rest, last = [_share(one) for one in run.sharers]
    shares = f"{', '.join(rest)} and {last}" if rest else last
    whole = [one.sharer.name for one in run.sharers if one.asked_at_last and one.settled >= WHOLE * one.asked_at_last]
    served = f" {' and '.join(whole)} {'has' if len(whole) == 1 else 'have'} all that was asked for." if whole else ""
    return f"In the last {LAST_S} s {shares}.{served}"


def _share(one: SharerRun) -> str:
    return f"{one.sharer.name} gets {number(one.settled)}/s"


def _woken(run: SharingRun) -> Iterator[str]:
    """Of members that wake during the run."""
    for one in run.sharers:
        demand = one.sharer.demand
        if demand.first or not 0 < demand.at_s < SECONDS:
            continue
        if one.first_wait_us is None:
            yield f"None of {one.sharer.name}'s requests passes."
        else:
            wait = f"after {one.first_wait_us / 1_000:,.0f} ms" if one.first_wait_us else "at once"
            yield f"{one.sharer.name} wakes at {demand.at_s} s, and its first request passes {wait}."


def _kept_waiting(run: SharingRun) -> Iterator[str]:
    guaranteed = [one for one in run.sharers if one.sharer.share and one.sharer.share.own]
    if not guaranteed:
        return
    worst = max(guaranteed, key=lambda one: one.kept_waiting_us)
    if worst.kept_waiting_us:
        span = f"{worst.kept_waiting_us / 1_000:,.0f} ms"
        yield f"Guaranteed requests of {worst.sharer.name} were refused for {span}, because the pool was lent out."
    else:
        yield "No guaranteed request was refused."


def _bound(run: SharingRun) -> str:
    pool = run.setup.pool
    rate = pool.rate * SECOND_US // pool.per_us
    most = f"{rate:,}/s and a burst of {pool.burst:,} allow {run.bound:,}"
    return f"At most {counted(run.most_in_a_second, 'request')} passed in any second; {most}."
