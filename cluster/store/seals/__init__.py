"""Stored JSON with a checksum in front, and what happens to values whose checksum fails.

seal               the checksum around one value
record_seal        records as sealed JSON: what a newer release wrote is kept
quarantine         values whose checksum fails are moved here; `quarantine_store` reads it for operators
readability_scan   reads every sealed record once, before an upgrade
"""
