"""Deployments without a route: recommenders that live in a place of their own."""
