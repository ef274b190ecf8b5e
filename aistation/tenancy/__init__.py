"""People and tenants: users, groups, memberships, tokens, and the one policy that decides who may do what."""
