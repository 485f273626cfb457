"""Benchmarks over HTTP: servers on one core, and a client that uses little processor time."""
