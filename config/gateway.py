"""Settings of the gateway inside the web process, which uses the same store and variables as the rest."""

from __future__ import annotations

import os

from config.env import SettingError
from headroom_edge.gateway.environment import GatewaySettings


def gateway_settings(redis_url: str) -> GatewaySettings:
    try:
        return GatewaySettings.read({**os.environ, "REDIS_URL": redis_url})
    except ValueError as error:
        raise SettingError(str(error)) from None
