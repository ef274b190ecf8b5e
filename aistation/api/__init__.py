"""The REST API, `/api/v1/`. Parses and answers; rules live in the services it calls."""
