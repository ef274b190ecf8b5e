"""What groups and people may use, and what they use now."""
