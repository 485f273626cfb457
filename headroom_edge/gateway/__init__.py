"""Enforcement over HTTP and in Python frameworks: one core (`guard`), thin adapters around it. Never the ORM."""
