from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "aistation.scheduling"
    label = "scheduling"
