"""What was changed by other hands since a document was last applied."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from quotas.models import Revision

APPLIED = "document_apply"


@dataclass(frozen=True, slots=True)
class Drift:
    revision: int
    author: str
    reason: str
    applied: int  # the revision in which a document was last applied

    def __str__(self) -> str:
        return (
            f"drift: {self.author} changed this in revision {self.revision} ({self.reason}), "
            f"after the last apply in revision {self.applied}"
        )


def drift_of(keys: Collection[str]) -> dict[str, Drift]:
    """By object, the last change that no document made; none at all before the first apply."""
    applied = Revision.objects.filter(action=APPLIED).order_by("-number").values_list("number", flat=True).first()
    if applied is None or not keys:
        return {}
    later = Revision.objects.filter(number__gt=applied, touched__overlap=list(keys)).order_by("number")
    wanted = frozenset(keys)
    return {
        key: Drift(number, author, reason, applied)
        for number, author, reason, touched in later.values_list("number", "author", "reason", "touched")
        for key in touched
        if key in wanted
    }
