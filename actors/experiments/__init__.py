"""Experiments: which reader sees which variant, and what came of it.

assignment     salted hashes of a reader to a layer, to entry, to a variant; published test vectors
choice         who gets what: forced, remembered, or by hash
evidence       always-valid intervals and the check of the split, for reports that may be read every day
"""
