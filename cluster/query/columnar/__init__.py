"""Columns in memory over rows of records, and the evaluation of syntax trees as row masks over them."""
