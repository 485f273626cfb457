"""Pools: limits that tenants, teams or endpoints share. What one member leaves unused, another may borrow."""
