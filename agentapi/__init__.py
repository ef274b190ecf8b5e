"""What the server and the agents say to each other. Versioned; no Django, no I/O."""
