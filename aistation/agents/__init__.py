"""The agents' edge, `/agent/v1/`: turns wire messages into service calls. Nothing else speaks ``agentapi``."""
