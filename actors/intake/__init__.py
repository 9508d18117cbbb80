"""Accepted uploads become records, changes and vectors; settled changes become Parquet.

steps      pure: a batch of JSON records to rows ready to write
applier    one batch through the steps into the store, exactly once in effect; poison set aside
rows       pure: changes of the log to rows of a segment
settle     change log to segments, so that training and restarts never read Redis in bulk
rebuild    lost or damaged segments written anew from the store of records
watch      tasks whose batch is gone are ended
tenure     being the only one who does it
loop       all of that for ever, without Ray
host       the named, restarted Ray actor around the loop
"""
