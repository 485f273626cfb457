"""The list of recommendations, the last calibration run, and limits with insufficient data."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboards.forms import told
from dashboards.pages.recommendations.card import Card
from dashboards.viewer import principal_of
from quotas.models.recommendation import Kind, Stage
from quotas.policies.problems import sentence
from quotas.recommendations.lifecycle import BulkApproval, recommendations_approve
from quotas.recommendations.queries import TABS, Inbox, inbox_read
from quotas.recommendations.runs import calibration_ask
from quotas.recommendations.settings import calibration_parameters
from quotas.recommendations.staleness import marked
from quotas.tasks import task_send

MOST_REFUSED = 3  # in a toast
MOST_LEFT_OUT = 20
TITLES = {
    "active": "Active",
    "waiting": "Waiting",
    "shadow": "In shadow",
    "enforced": "Enforced",
    "evaluated": "Evaluated",
    "dismissed": "Dismissed",
    "insufficient": "Insufficient data",
}
ORDER = ("Waiting for approval", "In shadow", "Enforced, being evaluated", "Insufficient data", "Closed")


@require_safe
def recommendations(request: HttpRequest) -> HttpResponse:
    tab = request.GET.get("tab", "active")
    if tab not in TABS:
        return HttpResponseBadRequest(f"tab must be one of {', '.join(TABS)}.", content_type="text/plain")
    inbox = inbox_read(tab)
    cards = sorted((Card(row) for row in marked(inbox.rows)), key=lambda card: (ORDER.index(card.group), card.rank))
    context: dict[str, Any] = {
        "inbox": inbox,
        "sections": [(name, list(group)) for name, group in groupby(cards, key=lambda card: card.group)],
        "near": [Card(row) for row in inbox.near],
        "promise": _promise([card for card in cards if card.is_waiting]),
        "left_out": (inbox.run.result or {}).get("left_out", [])[:MOST_LEFT_OUT] if inbox.run else [],
        "tabs": [(name, title, inbox.counts[name]) for name, title in TITLES.items()],
        "funnel": _funnel(inbox.run.result or {}) if inbox.run else _known(inbox),
        "parameters": calibration_parameters(),
        "now": timezone.now(),
        "stages": Stage,
    }
    return render(request, "dashboards/recommendations/inbox.html", context)


@require_POST
def recommendations_bulk(request: HttpRequest) -> HttpResponse:
    """Approves all simulated recommendations with high confidence; the others need a review."""
    act = partial(recommendations_approve, author=principal_of(request).actor, reason=request.POST.get("reason", ""))
    told(request, act, _approved, "Not approved")
    return redirect("dashboards:recommendations")


@require_POST
def recommendations_run(request: HttpRequest) -> HttpResponse:
    """Queues a calibration of every limit, or joins the one that is under way."""
    task_send(calibration_ask(author=principal_of(request).actor, reason="asked for on the page"))
    messages.success(request, "Computing again|Every limit is measured; the list changes when it is done")
    return redirect("dashboards:recommendations")


def _approved(done: BulkApproval) -> str:
    """How many, and of the others which and why."""
    waiting = [row for row in done.approved if row.problem]
    started = len(done.approved) - len(waiting)
    said = ["It starts in shadow." if started == 1 else f"{started} start in shadow."] if started else []
    said += [f"{row.pk} has not started: {sentence(row.problem)}" for row in waiting[:MOST_REFUSED]]
    left = [f"{number}: {reason}." for number, reason in list(done.refused.items())[:MOST_REFUSED]]
    if left:
        said.append(f"Not approved: {' '.join(left)}")
    if len(done.refused) > len(left):
        said.append(f"And {len(done.refused) - len(left)} more.")
    return f"Approved {len(done.approved)}|{' '.join(said)}"


def _promise(waiting: list[Card]) -> str:
    """What all that wait would do together. An override's 429s are among those of its tier's limit."""
    if not waiting:
        return ""
    fresh = [card.row for card in waiting if not card.row.is_stale]
    tiers = {(row.policy, row.limit) for row in fresh if row.kind != Kind.OVERRIDE}
    counted = [row for row in fresh if row.kind != Kind.OVERRIDE or (row.policy, row.limit) not in tiers]
    found = [row.forecast.get("benefit", {}) for row in counted]
    ended, of = (sum(one.get(name, 0) for one in found) for name in ("ended_a_day", "denied_a_day"))
    stale = sum(card.row.is_stale for card in waiting)
    words = f"{len(waiting)} to review{f', {stale} of them stale' if stale else ''}."
    return f"{words} They would end {ended:,.0f} of {of:,.0f} 429s a day." if ended >= 1 else words


def _known(inbox: Inbox) -> list[tuple[int, str]]:
    """The result of a run that has no record of its own."""
    found = [(inbox.counts["insufficient"], "with insufficient data: too few days or tenants")]
    found.append((inbox.waiting, "waiting for review"))
    return found if any(count for count, _ in found) else []


def _funnel(result: dict[str, Any]) -> list[tuple[int, str]]:
    limits, idle = result.get("limits", 0), result.get("idle", 0)
    skipped = len(result.get("skipped", []))
    return [
        (limits, "limits checked"),
        (idle, "without traffic"),
        (result.get("insufficient", 0), "with insufficient data: too few days or tenants"),
        (result.get("fitting", 0), "already fit (a change would be too small or too soon)"),
        (len(result.get("left_out", [])), "left out: no benefit beyond chance"),
        *([(skipped, "sized in another way: shares of a pool, adaptive limits")] if skipped else []),
        (len(result.get("proposed", [])), "proposed"),
    ]
