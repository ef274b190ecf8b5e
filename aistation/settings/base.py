"""All settings. What differs between machines comes from the environment; each variable is listed in README.md."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ

BASE_DIR = Path(__file__).resolve().parent.parent.parent
env = environ.FileAwareEnv()  # NAME_FILE may name a file that holds the value of NAME

SECRET_KEY = env.str("AISTATION_SECRET_KEY").strip()
DEBUG = False

# --- where things are ------------------------------------------------------------------------------
PORTAL_URL = env.str("AISTATION_URL", "http://localhost:8000").rstrip("/")
"""How people reach the portal. Environments live on ``<id>.<ENVIRONMENT_DOMAIN>`` at the same scheme and port."""
_portal = urlsplit(PORTAL_URL)
PORTAL_HOST = _portal.hostname or "localhost"
ENVIRONMENT_DOMAIN = env.str("AISTATION_ENVIRONMENT_DOMAIN", PORTAL_HOST)
ALLOWED_HOSTS = [*env.list("AISTATION_ALLOWED_HOSTS", default=[]), PORTAL_HOST, "." + ENVIRONMENT_DOMAIN, "127.0.0.1"]
CSRF_TRUSTED_ORIGINS = [PORTAL_URL]
GATEWAY_DIR = Path(env.str("AISTATION_GATEWAY_DIR", "/var/lib/aistation/gateway"))
"""Where the gateway's dynamic configuration is written; Envoy watches this directory."""
FOLDERS_ROOT = Path(env.str("AISTATION_FOLDERS_ROOT", "/var/lib/aistation/folders"))
"""Shared root of all folders, mounted at any path on the nodes."""
ALLOW_PROCESS_RUNTIME = env.bool("AISTATION_ALLOW_PROCESS_RUNTIME", False)
"""Nodes whose runtime is plain processes isolate nothing; production refuses them."""

WEB_THREADS = env.int("AISTATION_WEB_THREADS", 16)
"""Requests handled at once by one web process; each thread keeps one database connection."""
BODY_TIMEOUT_S = 30
"""For a request's body to arrive."""

# --- stores ----------------------------------------------------------------------------------------
DATABASES = {
    "default": {
        **env.db("AISTATION_DATABASE_URL"),
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 5,
            "options": "-c statement_timeout=30s -c lock_timeout=10s -c idle_in_transaction_session_timeout=15s",
        },
    }
}
if _password := env.str("AISTATION_DATABASE_PASSWORD", "").strip():
    DATABASES["default"]["PASSWORD"] = _password
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = env.str("AISTATION_REDIS_URL")  # redis://host:port or unix:///path/to.sock


def _celery_url(database: int) -> str:
    url = urlsplit(REDIS_URL)
    return f"redis+socket://{url.path}?virtual_host={database}" if url.scheme == "unix" else f"{REDIS_URL}/{database}"


def _redis_url(database: int) -> str:
    return f"{REDIS_URL}?db={database}" if REDIS_URL.startswith("unix:") else f"{REDIS_URL}/{database}"


CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": _redis_url(0)}}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [_redis_url(3)]},
    }
}

# --- background work: messages are hints, a sweep over rows is the truth -----------------------------
CELERY_BROKER_URL = _celery_url(1)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_TIME_LIMIT = 60
CELERY_TASK_SOFT_TIME_LIMIT = 45
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 120, "socket_keepalive": True, "retry_on_timeout": True}
CELERY_TASK_PUBLISH_RETRY = False  # a lost hint costs a second; a blocked request costs a person
CELERY_TIMEZONE = "UTC"

# --- Django ------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "aistation.core",
    "aistation.audit",
    "aistation.tenancy",
    "aistation.fleet",
    "aistation.catalog",
    "aistation.quotas",
    "aistation.workloads",
    "aistation.jobs",
    "aistation.environments",
    "aistation.scheduling",
    "aistation.agents",
    "aistation.ingress",
    "aistation.api",
    "aistation.portal",
    "aistation.embedded",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "aistation.core.middleware.ProblemMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "aistation.tenancy.middleware.ActorMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "aistation.core.middleware.SecurityHeadersMiddleware",
]
ROOT_URLCONF = "aistation.urls"
ASGI_APPLICATION = "aistation.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.messages.context_processors.messages",
                "aistation.portal.context.portal",
            ],
        },
    }
]
AUTH_USER_MODEL = "tenancy.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
SESSION_COOKIE_NAME = "aistation_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 7 * 24 * 3600
CSRF_COOKIE_HTTPONLY = False  # htmx sends it as a header
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "aistation.portal.views.errors.csrf_failure"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000  # the quota page of a group of 100 has 4,000
APPEND_SLASH = False

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT: Path | None = BASE_DIR / "staticfiles"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "aistation.api.authentication.TokenAuthentication",
        "aistation.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["aistation.api.parsers.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "aistation.api.problems.handle_exception",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "AIStation",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "PREPROCESSING_HOOKS": ["aistation.api.schema.only_ours"],
    "POSTPROCESSING_HOOKS": ["aistation.api.schema.complete"],
    "PATH_CONVERTER_OVERRIDES": {
        "name": {"type": "string", "pattern": "^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$"},
        "uid": {"type": "string", "pattern": "^[a-z]{2,8}-[a-z0-9]{1,40}$"},
        "number": {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
    },
}

# --- rules with a number --------------------------------------------------------------------------
HEARTBEAT_S = 5
SNAPSHOT_DIR = env.str("AISTATION_SNAPSHOT_DIR", "")  # the last 1,000 decisions' snapshots, for `manage.py replay`
STOP_GRACE_S = env.int("AISTATION_STOP_GRACE_S", 10)  # between SIGTERM and SIGKILL
PREEMPT_GRACE_S = env.int("AISTATION_PREEMPT_GRACE_S", 120)  # the same for work that is to save and come back
CAPACITY_RECENT_S = 1.0  # a submit is let in on what the fleet was this long ago; refused only on what it is
NODE_SUSPECT_S = 15
NODE_LOST_S = 60
TOKEN_MAX_LIFETIME_S = 90 * 24 * 3600
LOG_LIMIT_BYTES = env.int("AISTATION_LOG_LIMIT_MIB", 1024) * 1024 * 1024
DISK_FULL_PERCENT = 90
IMAGES_DIR = BASE_DIR / "images"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"()": "aistation.core.logging.OneLineFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": env.str("AISTATION_LOG_LEVEL", "INFO")},
    "loggers": {name: {"level": "WARNING"} for name in ("celery.app.trace", "celery.beat", "celery.worker.strategy")},
}
