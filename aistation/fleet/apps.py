from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "aistation.fleet"
    label = "fleet"
