"""Use cases of what apps hold: products, users, imports, quarantine, boost rules and questions."""
