"""Who may call the API: keys, tokens, proofs and the admission of a request."""
