"""Statements about citations: whether they still stand, signed by the publisher, and news for agents that read."""
