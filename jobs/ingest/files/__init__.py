"""Rows of files: their sources, formats, columns and chunks."""
