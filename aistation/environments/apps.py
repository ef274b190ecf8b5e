from django.apps import AppConfig


class EnvironmentsConfig(AppConfig):
    name = "aistation.environments"
    label = "environments"
