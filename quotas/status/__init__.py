"""The state of the whole installation: for pages, for /metrics, and what waits for a person."""
