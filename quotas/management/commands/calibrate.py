from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from quotas.management.progress import Bar
from quotas.models import Recommendation
from quotas.services.calibration_runs import calibration_run


class Command(BaseCommand):
    help = "Measures every limit against the recorded usage, and files what is worth a change, with its forecast."

    def handle(self, *args: Any, **options: Any) -> None:
        bar = Bar(self.stderr)
        try:
            found = calibration_run(progress=bar.show)
        finally:
            bar.end()
        self.stdout.write(
            f"{found.limits} limits: {found.fitting} fit, {found.idle} without traffic, "
            f"{found.insufficient} with too little of it, "
            f"{len(found.proposed)} recommendations"
        )
        for row in Recommendation.objects.filter(pk__in=found.proposed).order_by("id"):
            self.stdout.write(f"  {row.pk}  {row.trust:<6}  {row.summary}")
