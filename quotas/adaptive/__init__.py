"""Limits that adapt: their live values over time, and how one is pinned."""
