"""Says at the start what would otherwise show only as refused API keys."""

from __future__ import annotations

import logging

from django.db import Error, connection

logger = logging.getLogger(__name__)


def report_locked_keys() -> None:
    """Logs one sentence if SECRET_KEY is wrong. The process goes on, so that /healthz can say it too."""
    # Needs the models, which are loaded with the application.
    from tenants.keyring import API_KEYS, KeyringError, read_keys

    try:
        read_keys(API_KEYS)
    except KeyringError as error:
        logger.critical("%s", error)
    except Error:
        pass  # /healthz says that the database is down
    finally:
        connection.close()
