"""Rows for tests, made by the product's own services wherever one exists."""
