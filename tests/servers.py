"""Points the settings at throw-away servers before Django reads them; loaded by pytest with `-p`."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

# Always our own: the tests flush what they are given.
for _name in (
    "DATABASE_URL",
    "REDIS_URL",
    "BROKER_URL",
    "SECRET_KEY",
    "HEADROOM_DEBUG",
    "HEADROOM_HTTPS",
    "GATEWAY_URL",
    "RLS_URL",
):
    os.environ.pop(_name, None)

HOME = Path(tempfile.mkdtemp(prefix="hr-"))
os.environ["HEADROOM_HOME"] = str(HOME)
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
