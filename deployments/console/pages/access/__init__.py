"""Pages of accounts: sign-in, invitations, people and their tokens."""
