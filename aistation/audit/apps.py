from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "aistation.audit"
    label = "audit"
