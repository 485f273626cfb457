"""What Celery runs. Each may run twice or at the same time as itself without harm."""

from __future__ import annotations

import logging

from celery import shared_task

from quotas.usage import drain, upkeep

log = logging.getLogger(__name__)


@shared_task(name="quotas.drain", soft_time_limit=300, time_limit=360)
def drain_usage() -> None:
    with drain.connect() as server:
        log.debug("drained: %s", drain.drain(server))


@shared_task(name="quotas.keep_up", soft_time_limit=300, time_limit=360)
def keep_usage_up() -> None:
    log.info("usage tables: %s", upkeep.keep_up())
