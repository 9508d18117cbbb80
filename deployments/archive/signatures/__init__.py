"""Signatures of requests: which agent sent a request, proven by its published keys (RFC 9421, Web Bot Auth)."""
