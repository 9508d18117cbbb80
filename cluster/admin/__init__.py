"""Use cases of a first start: apps and keys, accounts, the vault, personal data, allowed learners."""
