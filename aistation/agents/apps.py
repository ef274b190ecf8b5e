from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "aistation.agents"
    label = "agents"
