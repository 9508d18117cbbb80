"""Recipes beside each other.

sweep       every combination of some fields, examined on the same readers
sweeps      variant by variant, and the comparison written down
comparing   recipes of published versions, examined anew on what has settled by now
"""
