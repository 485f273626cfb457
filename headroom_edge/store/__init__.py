"""The way to Redis: address, connections for threads and for an event loop, circuit breaker.

Every call has a time budget. A connection whose reply may still arrive late is dropped, never reused.
"""
