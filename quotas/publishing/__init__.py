"""From PostgreSQL to Redis: the publisher applies the outbox, the reconciler repairs what was lost or changed.

A shard is written by compare-and-set on its token, so an old, repeated or reordered publish changes nothing.
"""
