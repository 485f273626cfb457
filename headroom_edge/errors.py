"""Errors of the store."""

from __future__ import annotations


class StoreError(Exception):
    """The store could not be reached, or its reply is not a decision."""


class StoreTimeoutError(StoreError):
    """No reply within the budget. The store may have counted the request or not."""


class StoreLostError(StoreError):
    """There is no connection, or it broke before the reply came."""


class StoreUnsentError(StoreLostError):
    """The connections were closed before the command was sent, so it may be sent to another server."""


class StoreAddressError(StoreError, ValueError):
    """The URL is of the wrong kind for the server behind it. The message says which one to write."""


class StoreRefusedError(StoreError):
    """The store replied with an error: it is up, but cannot decide (loading, read-only, out of memory)."""
