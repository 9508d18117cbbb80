"""Use cases of access: apps, API keys, accounts, invitations, tokens, sign-in and clients of the archive."""
