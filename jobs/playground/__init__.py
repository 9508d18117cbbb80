"""Sample data for the read-only environment: written by us, generated deterministically."""
