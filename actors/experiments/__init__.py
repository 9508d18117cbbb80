"""Experiments: which user sees which variant, and how the variants compare.

assignment   choose a variant: forced, remembered, or by salted hashes; published test vectors
assigner     record an event of an experiment and return the user's variant; host is its Ray actor
treatments   assign and count the variants of queries that the API replica answers; cached experiments
lifecycle    drafts, edits and changes of status
report       conversions, guardrails and the check of the split; report_data loads what it counts
statistics   always-valid intervals and the test of the split
client       typed clients of the assigner and of the administration
messages     what callers send and receive
"""
