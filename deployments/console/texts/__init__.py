"""Texts of the console by key, one file a language."""
