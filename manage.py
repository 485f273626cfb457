#!/usr/bin/env python3
from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from config.env import one_line_errors


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    with one_line_errors():
        try:
            execute_from_command_line(sys.argv)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read the lines, such as `head`, has enough. The interpreter flushes once more as it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)


if __name__ == "__main__":
    main()
