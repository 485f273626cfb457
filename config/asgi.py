from __future__ import annotations

import gc
import os

from django.conf import settings
from django.core.asgi import get_asgi_application

from config.body_limit import bounded
from config.env import one_line_errors
from headroom_edge.gateway.server import Gateway, mounted

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# A connection pool for this process only: it serves many requests at once, and it never forks.
os.environ.setdefault("HEADROOM_DB_POOL", "10")

with one_line_errors():
    gateway = Gateway(settings.HEADROOM_GATEWAY.limiter(), settings.HEADROOM_GATEWAY.rules)
    application = mounted(bounded(get_asgi_application()), gateway)
# What is loaded now is never freed, so the garbage collector need not scan it.
gc.freeze()
