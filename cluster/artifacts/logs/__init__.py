"""Logs in files of a day: queries, served lists and their outcomes, calls of the archive."""
