"""The gateway: routes for Envoy, and the answer whether a person may pass."""
