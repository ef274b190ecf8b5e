"""One machine, for trying and developing: what `make quickstart` runs."""

import environ

_env = environ.Env()
_env.ENVIRON.setdefault("AISTATION_SECRET_KEY", "only-for-commands-that-need-no-secret")
_env.ENVIRON.setdefault("AISTATION_DATABASE_URL", "postgres://aistation@localhost/aistation")
_env.ENVIRON.setdefault("AISTATION_REDIS_URL", "redis://localhost:6379")

from aistation.settings.base import *  # noqa: E402, F403 - the defaults above come first

ALLOW_PROCESS_RUNTIME = _env.bool("AISTATION_ALLOW_PROCESS_RUNTIME", True)
STATIC_ROOT = None  # served from where the files lie: nothing to collect
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = _env.bool("AISTATION_RELOAD_STATIC", False)
"""For working on the pages: static files are looked up at each request."""
