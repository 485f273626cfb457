#!/usr/bin/env python3
from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from config.env import one_line_errors


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    with one_line_errors():
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
