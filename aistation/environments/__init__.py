"""Environments: interactive workloads that people open in the browser."""
