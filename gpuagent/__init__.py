"""The agent of one node: makes containers match what the server wants. No Django, no database, no Redis."""

__version__ = "1.0.0"
