"""Why a file that somebody named cannot be read, and what to do about it."""

from __future__ import annotations


def file_problem(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file; correct the name or the folder"
    return error.strerror or str(error)
