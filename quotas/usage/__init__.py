"""From Redis to rollups, and every question about usage.

The drain moves counters (cells) from Redis into a log, each exactly once. Folds add the log to the rollups, totals,
seconds and rates. The finest rollups are packed once their hour is over. `queries` reads all of it.
"""
