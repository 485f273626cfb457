from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headroom_edge.algorithms.base import counted
from quotas.management.progress_bar import ProgressBar
from quotas.models import Recommendation
from quotas.recommendations.runs import calibration_now


class Command(BaseCommand):
    help = "Compare every limit with the recorded usage, and file recommendations with a forecast."

    def handle(self, *args: Any, **options: Any) -> None:
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
        for row in Recommendation.objects.filter(pk__in=found["proposed"]).order_by("id"):
            self.stdout.write(f"  {row.pk}  {row.trust:<6}  {row.summary}")
