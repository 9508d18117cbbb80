"""Validation of uploads: bodies, JSON limits, type checks, error messages, and the events that recommenders keep."""
