"""Who did what, when, and what it changed. Append-only."""
