"""Intake: accepted uploads become records, changes and vectors; compacted changes become Parquet.

batch_preparation   turn a batch of JSON records into rows to write: pure functions
applier             apply one batch to the store, exactly once in effect; quarantine malformed records; end lost tasks
segment_rows        turn changes of the log into rows of a segment: pure functions
compaction          move change-log entries into segments, so that training and restarts never read Redis in bulk;
                    write lost or damaged segments again from the store of records
daily_log_compaction  the same for the query log, the log of answers and that of archive calls
attribution         credit the interactions of a day to answers: pure functions; outcome_attribution keeps outcomes
                    up to date
storage_meter       measure the bytes of apps with a bound on storage
erasure             delete the data of a person; personal_data reads it, place by place
quarantine_replay   apply quarantined records again
loop                run all of that without Ray
host                the named, restarted Ray actor around the loop
client              typed client of erasures
"""
