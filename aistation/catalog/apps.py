from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "aistation.catalog"
    label = "catalog"
