"""Why the store gave no answer that can be used."""

from __future__ import annotations


class StoreError(Exception):
    """The store could not be asked, or its answer is no decision."""


class StoreTimeoutError(StoreError):
    """No answer within the budget. Whether the store has counted the request is not known."""


class StoreLostError(StoreError):
    """There is no connection, or it broke before the answer came."""


class StoreRefusedError(StoreError):
    """The store answered with an error: it lives, but cannot decide (loading, read-only, out of memory)."""
