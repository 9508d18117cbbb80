"""Products found by words: BM25 over weighted fields, with typos corrected and, when asked, by meaning too.

found       what is asked and what is found
"""
