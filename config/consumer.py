"""The part of a worker that takes tasks from the broker, with one difference: it notices a lost acknowledgement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.worker.consumer import Consumer


class StrictConsumer(Consumer):
    """Celery logs an acknowledgement that fails and goes on.

    The task then counts as running for ever. With one task at a time nothing more is fetched, so nothing shows that the
    connection is gone: the worker stands still until somebody restarts it. Here the error ends the connection; Celery
    connects again and the broker delivers the task again, which jobs are made for.
    """

    def call_soon_ack(self, p: Callable[..., Any], logger: Any, errors: Any, *args: Any) -> Any:
        """`errors`: what `p` would only log."""
        return super().call_soon_ack(p, logger, (), *args)  # type: ignore[misc]  # not in its stubs
