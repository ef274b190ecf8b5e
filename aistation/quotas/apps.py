from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "aistation.quotas"
    label = "quotas"
