"""The version of this package. Enforcers tell it to the store, and pyproject.toml has the same."""

__version__ = "0.2.0"
