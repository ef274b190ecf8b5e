"""Production: secrets are demanded, cookies need HTTPS, nodes must isolate."""

from aistation.settings.base import *  # noqa: F403

ALLOW_PROCESS_RUNTIME = False
SESSION_COOKIE_NAME = "__Host-aistation_session"
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_NAME = "__Host-aistation_csrf"
CSRF_COOKIE_SECURE = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 30 * 24 * 3600
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
