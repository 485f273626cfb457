"""Runs a benchmark in its own process with its own servers, because Django reads its settings once.

`run_isolated("benchmarks.usage")` returns the rows that `benchmarks.usage.measure` measures in an empty database.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.report import BenchmarkRow
from config.data_folders import ROOT, places
from config.embedded import ValkeyOptions, start_postgres, start_valkey


def run_isolated(module: str) -> list[BenchmarkRow]:
    with tempfile.TemporaryDirectory(prefix="hr-bench-") as home:
        environment = {key: value for key, value in os.environ.items() if not key.endswith("_URL")}
        environment |= {"HEADROOM_HOME": home, "DJANGO_SETTINGS_MODULE": "config.settings"}
        words = [sys.executable, "-m", "benchmarks.isolated_process", module]
        done = subprocess.run(words, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [BenchmarkRow(**row) for row in json.loads(done.stdout.splitlines()[-1])]


@contextmanager
def servers() -> Iterator[None]:
    home = places()
    with ExitStack() as stack:
        stack.callback(start_postgres(home).stop)
        stack.callback(start_valkey(Path(home.valkey), ValkeyOptions(socket=home.valkey_socket)).stop)
        yield


def run_measure(module: str) -> list[BenchmarkRow]:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    measure = importlib.import_module(module).measure
    # The web process does the same after start-up.
    gc.freeze()
    rows: list[BenchmarkRow] = measure()
    return rows


if __name__ == "__main__":
    with servers():
        print(json.dumps([asdict(row) for row in run_measure(sys.argv[1])]))
