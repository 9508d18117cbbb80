"""Serve deployments without a route: dedicated engines."""
