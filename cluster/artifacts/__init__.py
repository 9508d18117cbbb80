"""The content of the artifact store, and its formats.

storage/             files that are written whole or not at all, in a local directory or an object store (pyarrow.fs)
manifest             the checksums of a set of files, and folders whose newest one counts; `signing` signs it
segments             compacted records and interactions as Parquet, with the change-log offsets they cover
segment_commits      read, write and commit segments; `segment_stream` reads them in batches
segment_format       their columns; `table_files` has one table as a file outside the artifact store
compaction           which segments to merge
compacted_state      the records and interactions that a recommender starts from
file_verification    manifest entries of files, and their verification
logs/                rows of an app in files by day: the query log, the log of answers with what followed from
                     them, the log of archive calls with the visits that followed
replaced_products    the former versions of products
snapshots            the results of training runs, one folder for each version, and those to replace after an erasure
app_storage          the folders and the size of an app, and the artifacts of its training runs
erasure_log          which data of erased users segments and snapshots still contain; `address_limit`
"""
