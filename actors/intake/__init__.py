"""Accepted uploads become records, changes and vectors; settled changes become Parquet.

steps      pure: a batch of JSON records to rows ready to write
applier    one batch through the steps into the store, exactly once in effect
settle     change log to Parquet segments, so that training and restarts never read Redis in bulk
host       the named, restarted Ray actor that does both for ever
"""
