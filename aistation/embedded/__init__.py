"""Everything on one machine: PostgreSQL, Valkey and Envoy from wheels, and the supervisor of `quickstart`."""
