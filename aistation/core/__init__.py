"""What every app uses: errors, clock, ids, messages. No noun of the field lives here."""
