"""How it runs: settings, urls, ASGI, Celery, health, the embedded servers and the supervisor of `make up`."""
