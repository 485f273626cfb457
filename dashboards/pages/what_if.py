"""What-if: replays recorded traffic against a draft, and saves the draft as a pending change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboards.forms import NOT_SAVED, PageForm, ReasonedForm, number_of, told
from dashboards.viewer import principal_of
from quotas.changes.rollout import change_propose
from quotas.changes.snapshot import POLICY, key_of, snapshots
from quotas.errors import Refused, accepted
from quotas.models import Change, Policy, Task
from quotas.models.change import ENDED
from quotas.policies.apply import document_apply
from quotas.policies.document import MOST_BYTES, read_document
from quotas.policies.export import document_text, without_candidates
from quotas.policies.problems import sentence
from quotas.tasks import task_send
from quotas.what_if import DAYS, MOST_DAYS, whatif_ask

MOST_RUNS = 8
MOST_CHOICES = 200
RUN = "dashboards:what-if-run"


class DraftForm(PageForm):
    document = forms.CharField(
        label="Document",
        max_length=MOST_BYTES,
        strip=False,
        error_messages={"required": "Start from a policy or a pending change, or write a document."},
        widget=forms.Textarea(attrs={"rows": 16, "spellcheck": "false", "class": "textarea mono"}),
    )
    days = forms.IntegerField(
        label="Traffic",
        min_value=1,
        max_value=int(MOST_DAYS),
        initial=int(DAYS),
        widget=forms.TextInput(attrs={"class": "input num", "inputmode": "numeric"}),
    )


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One row of the table, empty until the tenant is replayed."""

    tenant: str
    found: dict[str, Any] | None

    @property
    def before(self) -> float:
        return self._share("denied_before")

    @property
    def after(self) -> float:
        return self._share("denied_after")

    @property
    def verdict(self) -> str:
        if self.found is None:
            return ""
        before, after = self.found["denied_before"], self.found["denied_after"]
        if not before and not after:
            return ""
        if not before:
            return "newly denied"
        if not after:
            return "no longer denied"
        return "better" if after < before else "worse" if after > before else "unchanged"

    @property
    def limits(self) -> str:
        """The limits that deny with the draft, else those that deny now."""
        found = self.found or {}
        return ", ".join(sorted(found.get("limits_after") or found.get("limits_before") or {}))

    def _share(self, name: str) -> float:
        return self.found[name] / max(1, self.found["asked"]) if self.found else 0.0


@require_http_methods(["GET", "HEAD", "POST"])
def what_if(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        form = DraftForm(initial={"document": _start(request), "days": int(DAYS)})
        return render(request, "dashboards/what_if/page.html", {"form": form, **_choices(request)})
    form = DraftForm(request.POST)
    if form.is_valid():
        fields = form.cleaned_data
        try:
            task = whatif_ask(
                document=fields["document"], days=float(fields["days"]), author=principal_of(request).actor
            )
            task_send(task)
            return redirect(RUN, task.pk)
        except Refused as refusal:
            for problem in refusal.problems[:5]:
                form.add_error("days" if problem.path == "days" else "document", sentence(str(problem)))
    return render(request, "dashboards/what_if/page.html", {"form": form, **_choices(request)})


@require_safe
def what_if_run(request: HttpRequest, number: int) -> HttpResponse:
    task = get_object_or_404(Task, pk=number, kind=Task.Kind.WHAT_IF)
    rows = _rows(task)
    context = {"task": task, "rows": rows, "done": sum(row.found is not None for row in rows)}
    if request.headers.get("HX-Request"):
        return render(request, "dashboards/what_if/run.html", context)
    form = DraftForm(initial=task.asked | {"days": int(task.asked["days"])})
    return render(request, "dashboards/what_if/page.html", {**context, "form": form, **_choices(request)})


@require_POST
def what_if_draft(request: HttpRequest, number: int) -> HttpResponse:
    """Saves the replayed document as a pending change; nothing is enforced."""
    task = get_object_or_404(Task, pk=number, kind=Task.Kind.WHAT_IF, state=Task.State.DONE)
    form = ReasonedForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"{NOT_SAVED}|Enter a reason. It is saved with the change.")
        return redirect(RUN, number)
    who = {"author": principal_of(request).actor, "reason": form.cleaned_data["reason"]}

    def propose() -> Change:
        return change_propose(document_apply, document=accepted(read_document(task.asked["document"])), **who)

    next_step = "Start it in shadow or as a canary, or promote it"
    is_saved = told(request, propose, lambda change: f"Saved as change {change.pk}|{next_step}", NOT_SAVED)
    return redirect("dashboards:changes") if is_saved else redirect(RUN, number)


def _rows(task: Task) -> list[TenantRow]:
    """At their places while it runs, so that no row moves; then the busiest first."""
    result = task.result or {}
    seen = {row["tenant"]: row for row in result.get("seen", ())}
    rows = [TenantRow(name, seen.get(name)) for name in result.get("order", ())]
    is_done = task.state == Task.State.DONE
    return sorted(rows, key=lambda row: -row.found["asked"] if row.found else 1) if is_done else rows


def _choices(request: HttpRequest) -> dict[str, Any]:
    open_changes = Change.objects.exclude(state__in=ENDED).only("id", "reason", "state")[:MOST_CHOICES]
    names = Policy.objects.order_by("name").values_list("name", flat=True)[:MOST_CHOICES]
    runs = Task.objects.filter(kind=Task.Kind.WHAT_IF).defer("asked", "result")[:MOST_RUNS]
    chosen = request.GET.get("from", "")
    number = chosen.removeprefix("change:")
    return {
        "changes": open_changes,
        "policies": names,
        "runs": runs,
        "chosen": chosen,
        "chosen_change": number_of(number),
    }


def _start(request: HttpRequest) -> str:
    """The initial document: a current policy or a pending change."""
    kind, _, name = request.GET.get("from", "").partition(":")
    if kind == "policy":
        state = snapshots([key_of(POLICY, name)])[key_of(POLICY, name)]
        return _text({key_of(POLICY, name): state} if state else {}, f"Policy {name}. Edit what you want to try.")
    if kind == "change" and (number := number_of(name)) is not None:
        change = Change.objects.filter(pk=number).first()
        return _text(change.after if change else {}, f"Change {name}, as it would be applied.")
    return ""


def _text(states: dict[str, Any], heading: str) -> str:
    """The document, without deleted objects and those that a document cannot contain."""
    said = {
        key: without_candidates(state)
        for key, state in states.items()
        if state and key.partition(":")[0] in ("tier", "endpoint", "policy")
    }
    return document_text({key: state or {} for key, state in said.items()}, heading, {}) if said else ""
