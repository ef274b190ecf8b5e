"""The pages, and the socket that tells them when to look again."""
