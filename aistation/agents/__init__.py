"""The agents' edge: HTTP and WebSocket under ``/agent/v1/``. It alone speaks `agentapi`."""
