"""PostgreSQL for `manage.py restore` on a machine with the embedded servers.

`make up` fills an empty database at once, so it cannot start the server that a backup is restored into.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from config import env
from config.data_folders import places
from config.embedded import ServerError, sole_owner, start_postgres


@contextmanager
def postgres_for(arguments: Sequence[str]) -> Iterator[None]:
    """`arguments`: of manage.py. The embedded PostgreSQL runs meanwhile if they restore into it."""
    if arguments[1:2] != ["restore"] or {"-h", "--help"} & set(arguments) or env.text("DATABASE_URL", ""):
        yield
        return
    try:
        with sole_owner(places()):
            server = start_postgres(places())
            try:
                yield
            finally:
                server.stop()
    except ServerError as error:
        sys.stderr.write(f"headroom: {error}\n")
        raise SystemExit(1) from None
