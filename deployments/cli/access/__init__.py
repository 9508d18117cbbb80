"""Commands of access: apps, API keys, accounts, tokens, clients of the archive."""
