from django.apps import AppConfig


class PortalConfig(AppConfig):
    name = "aistation.portal"
    label = "portal"
