from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headroom_edge.algorithms.base import counted
from quotas.backtest.sparse_trace import SparseTenants, sparse_days
from quotas.management.arrivals_file import arrivals_write
from quotas.management.progress_bar import ProgressBar


class Command(BaseCommand):
    help = (
        "Generate a trace (CSV: timestamp,tenant) of tenants that are active for a few minutes a day, for backtest. "
        "A file whose name ends in .gz is gzipped."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        usual = SparseTenants()
        parser.add_argument("output", type=Path, metavar="OUT.csv[.gz]")
        parser.add_argument("--tenants", type=int, default=usual.tenants, help=f"(default: {usual.tenants})")
        parser.add_argument("--days", type=int, default=usual.days, help=f"(default: {usual.days})")
        parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers, to repeat a result")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in ("tenants", "days"):
            if not 0 < options[name] <= 100_000:
                raise CommandError(f"--{name} must be from 1 to 100,000.", returncode=2)
        if options["seed"] < 0:
            raise CommandError("--seed must not be below 0.", returncode=2)
        wanted = SparseTenants(options["tenants"], options["days"], options["seed"])
        rows = arrivals_write(options["output"], sparse_days(wanted), wanted.days, ProgressBar(self.stderr))
        self.stdout.write(f"{counted(rows, 'arrival')} in {options['output']}")
