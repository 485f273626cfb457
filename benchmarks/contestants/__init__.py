"""Headroom and its peers doing the same work: how each is built, started and asked. See `benchmarks/peers.py`."""
