"""Tests. `tests/conftest.py` starts the stores and names them in the environment before this is read."""

from aistation.settings.base import *  # noqa: F403
from aistation.settings.base import CACHES, DATABASES

ALLOW_PROCESS_RUNTIME = True
CAPACITY_RECENT_S = 0.0  # each test has a fleet of its own
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a login in a test costs nothing
DATABASES["default"]["CONN_MAX_AGE"] = 0
DATABASES["default"]["OPTIONS"]["options"] = "-c lock_timeout=10s"  # a test may think for long inside its transaction
CACHES["default"]["KEY_PREFIX"] = "test"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
