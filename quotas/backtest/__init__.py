"""Recommended limits against rules of thumb, on a trace: fitted on its first days, scored on the rest.

Arrivals are spooled to disk, so memory does not grow with the file.
"""
