"""Columnar."""
