"""Notes on charts: what happened, for everybody who reads a chart of that time later. Not configuration."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db import transaction

from quotas.errors import author_and_reason, check_moment, one_line, refuse
from quotas.lookups import find_numbered, find_tenant
from quotas.models import AuditEvent, ChartNote
from quotas.models.chart_note import LONGEST_TEXT

MOST: Final = 5_000


def chart_note_add(*, at: datetime, text: str, author: str, reason: str, tenant: str = "") -> ChartNote:
    """`tenant` empty: on every chart."""
    author, reason = author_and_reason(author, reason)
    check_moment("at", at)
    text = one_line("text", text.strip(), LONGEST_TEXT)
    if not text:
        raise refuse("text", "blank", "the note is empty; write what happened")
    whose = find_tenant(tenant) if tenant else None
    if ChartNote.objects.count() >= MOST:
        raise refuse("text", "too-many", f"there are {MOST:,} notes; remove old ones first")
    with transaction.atomic():
        row = ChartNote.objects.create(at=at, text=text, tenant=whose, author=author)
        _record("chart_note_added", row, author, reason)
    return row


def chart_note_remove(*, note: int, author: str, reason: str) -> ChartNote:
    """Returns what it was."""
    author, reason = author_and_reason(author, reason)
    with transaction.atomic():
        row = find_numbered(ChartNote.objects.select_for_update(of=("self",)).select_related("tenant"), note, "note")
        _record("chart_note_removed", row, author, reason)
        row.delete()
    return row


def _record(kind: str, row: ChartNote, author: str, reason: str) -> None:
    about = {"at": row.at.isoformat(), "text": row.text, "tenant": row.tenant.name if row.tenant else ""}
    AuditEvent.objects.create(kind=kind, detail={"note": row.pk, **about, "author": author, "reason": reason})
