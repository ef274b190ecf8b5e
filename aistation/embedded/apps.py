from django.apps import AppConfig


class EmbeddedConfig(AppConfig):
    name = "aistation.embedded"
    label = "embedded"
