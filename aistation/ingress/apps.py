from django.apps import AppConfig


class IngressConfig(AppConfig):
    name = "aistation.ingress"
    label = "ingress"
