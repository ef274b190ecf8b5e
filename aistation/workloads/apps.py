from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    name = "aistation.workloads"
    label = "workloads"
