from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "aistation.api"
    label = "api"
