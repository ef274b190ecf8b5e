from django.apps import AppConfig


class TenancyConfig(AppConfig):
    name = "aistation.tenancy"
    label = "tenancy"
