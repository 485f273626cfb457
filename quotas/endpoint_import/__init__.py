"""Registers endpoints from an OpenAPI document: reads it, compares it with what is registered, writes one revision."""
