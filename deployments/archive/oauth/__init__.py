"""OAuth 2.1 for the archive: registration, sign-in and consent, tokens, revocation; one module for each endpoint."""
