"""The cycle: take a snapshot, let ``scheduler`` decide, write what still holds."""
