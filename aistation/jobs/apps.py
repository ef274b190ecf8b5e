from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "aistation.jobs"
    label = "jobs"
