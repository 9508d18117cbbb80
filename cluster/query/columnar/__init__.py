"""Columns in memory over rows of records, and syntax trees compiled to row masks over them."""
