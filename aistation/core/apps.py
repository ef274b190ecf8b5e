from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "aistation.core"
    label = "core"
