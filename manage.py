#!/usr/bin/env python3
from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from config.env import one_line_errors
from config.restoring import postgres_for


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    with one_line_errors():
        try:
            with postgres_for(sys.argv):
                execute_from_command_line(sys.argv)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader, such as `head`, has gone. The interpreter flushes stdout when it exits, which must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)


if __name__ == "__main__":
    main()
