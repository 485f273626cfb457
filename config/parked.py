"""Runs a program that waits at a gate with its modules loaded: `python -m config.parked FD MODULES manage.py traffic`.

`MODULES` are joined by commas. The program is a script, or `-m` and a module, with its arguments.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys

from config.env import one_line_errors
from config.gate import wait_at


def main() -> None:
    fd, modules, *program = sys.argv[1:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    with one_line_errors():
        for name in modules.split(","):
            importlib.import_module(name)
    wait_at(int(fd))
    if program[0] == "-m":
        sys.argv = program[1:]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = program
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()
