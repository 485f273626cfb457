"""Headroom limits itself as a tenant of its own, on a tier of that name, by endpoints of a service of that name."""

from __future__ import annotations

from typing import Final

OWN_TENANT: Final = "headroom"
OWN_ENDPOINTS: Final = f"{OWN_TENANT}:"  # how their names begin
