"""Measured usage as values: cells, seconds, histograms and latency, and how they are packed. Knows no database."""
