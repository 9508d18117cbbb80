"""Use cases that a first start needs: apps and keys, accounts, the vault, personal data, allowed learners."""
