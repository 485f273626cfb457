"""What waits to be published, read and settled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max

from quotas.models.revision import Outbox, Revision
from quotas.policies.book import Touched

EVERYTHING = "everything"
COMMON = "common"


@dataclass(frozen=True, slots=True)
class Work:
    """The rows that one pass takes on."""

    rows: tuple[int, ...]
    touched: Touched
    is_everything: bool  # too much was touched to list it
    revisions: frozenset[int]
    api_keys: frozenset[str]
    oldest: datetime | None

    def __bool__(self) -> bool:
        return bool(self.rows)


def work_read() -> Work:
    rows = list(Outbox.objects.order_by("id"))
    revisions = [row for row in rows if row.kind == Outbox.Kind.REVISION]
    names = {name for row in revisions for name in row.touched}
    return Work(
        rows=tuple(row.pk for row in rows),
        touched=Touched(_named(names, "tenant:"), _named(names, "tier:"), COMMON in names),
        is_everything=EVERYTHING in names,
        revisions=frozenset(row.revision_id for row in revisions if row.revision_id is not None),
        api_keys=frozenset(name for row in rows if row.kind == Outbox.Kind.API_KEYS for name in row.touched),
        oldest=min((row.created for row in rows), default=None),
    )


def revision_newest() -> int:
    newest: int | None = Revision.objects.aggregate(newest=Max("number"))["newest"]
    return newest or 0


def work_settle(work: Work) -> None:
    Outbox.objects.filter(pk__in=work.rows).delete()


def _named(names: Iterable[str], kind: str) -> frozenset[str]:
    return frozenset(name.removeprefix(kind) for name in names if name.startswith(kind))
