"""The gateway inside the web process, on the same store and variables as everything else."""

from __future__ import annotations

import os

from api.gateway.environment import GatewaySettings
from config.env import SettingError


def gateway_settings(redis_url: str) -> GatewaySettings:
    try:
        return GatewaySettings.read({**os.environ, "REDIS_URL": redis_url})
    except ValueError as error:
        raise SettingError(str(error)) from None
