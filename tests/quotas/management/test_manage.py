"""`manage.py` as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from config.data_folders import ROOT


def test_a_reader_that_has_enough_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, str(ROOT / "manage.py"), "help", "--commands"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.returncode == 1
    assert done.stderr == b""
