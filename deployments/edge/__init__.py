"""Checks that all HTTP endpoints share: keys, tokens, limits, request bodies, replies and errors."""
