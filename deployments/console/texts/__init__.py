"""Texts of the console, one TOML file a language."""
