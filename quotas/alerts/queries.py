"""The alert targets and how delivery to them goes, for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from quotas.models import AlertDelivery, AlertTarget

WAITING: Final = Q(deliveries__sent_at=None, deliveries__is_given_up=False)


@dataclass(frozen=True, slots=True)
class TargetRow:
    target: AlertTarget
    address: str  # hidden from readers who may not edit targets
    waiting: int
    given_up: int  # of the last days, see quotas.alerts.watch.KEPT
    problem: str  # of the newest message that is not delivered; empty: none, or not tried yet
    next_try: datetime | None
    delivered_at: datetime | None

    @property
    def is_failing(self) -> bool:
        return bool(self.waiting and self.problem)


def target_rows(*, with_addresses: bool) -> list[TargetRow]:
    return [_row(row, with_addresses) for row in _targets()]


def targets_unreached() -> list[tuple[AlertTarget, datetime]]:
    """Targets that got nothing since a message to them failed, and when that message was created."""
    delivered = AlertDelivery.objects.filter(target=OuterRef("target")).order_by().values("target")
    last = Subquery(delivered.annotate(last=Max("sent_at")).values("last"))
    failed = AlertDelivery.objects.filter(sent_at=None, problem__gt="", target__is_on=True).annotate(last=last)
    failed = failed.filter(Q(last=None) | Q(created__gt=F("last")))
    since = dict(failed.order_by().values_list("target").annotate(since=Min("created")))
    return [(row, since[row.pk]) for row in AlertTarget.objects.filter(pk__in=since)] if since else []


def _targets() -> QuerySet[AlertTarget, Any]:
    unsent = AlertDelivery.objects.filter(target=OuterRef("pk"), sent_at=None).exclude(problem="")
    return AlertTarget.objects.annotate(
        waiting=Count("deliveries", filter=WAITING),
        given_up=Count("deliveries", filter=Q(deliveries__is_given_up=True)),
        problem=Coalesce(Subquery(unsent.order_by("-due_at").values("problem")[:1]), Value("")),
        next_try=Min("deliveries__due_at", filter=WAITING),
        delivered_at=Max("deliveries__sent_at"),
    ).order_by("pk")


def _row(row: Any, with_addresses: bool) -> TargetRow:
    problem = row.problem if with_addresses else row.problem.replace(row.address, row.hidden_address)
    address = row.address if with_addresses else row.hidden_address
    return TargetRow(row, address, row.waiting, row.given_up, problem, row.next_try, row.delivered_at)
