from __future__ import annotations

import gc
import os
import sys

from django.conf import settings
from django.core.asgi import get_asgi_application

from access.page_queue import PageQueue
from config.callers import watched
from config.env import one_line_errors
from headroom_edge.asgi import request_of
from headroom_edge.gateway.server import Gateway, mounted

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# A connection pool for this process only: it serves many requests at once, and it never forks.
os.environ.setdefault("HEADROOM_DB_POOL", "20")
# A request that waits for the database must not wait 5 ms for the interpreter too, each time, while another computes.
sys.setswitchinterval(0.0005)

with one_line_errors():
    inner = watched(get_asgi_application())
    # It needs Django's applications.
    from config.body_limit import bounded, is_known_apart

    # Requests send their tasks from any thread; without this, Celery would look for a broker of its own.
    from config.celery import app as celery

    celery.set_default()
    gateway = Gateway(settings.HEADROOM_GATEWAY.limiter(), settings.HEADROOM_GATEWAY.rules)
    queue = PageQueue(
        inner, settings.SESSION_COOKIE_NAME, lambda scope: gateway.guard.client_ip(request_of(scope)) or ""
    )
    application = mounted(bounded(queue, is_known_apart), gateway)
# What is loaded now is never freed, so the garbage collector need not scan it.
gc.freeze()
