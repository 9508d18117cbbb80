"""What stands on the shelf and in which form.

shelf           files, written whole or not at all; a local directory or an object store (pyarrow.fs)
manifest        what a set of files says of itself, with checksums
commits         folders whose newest manifest counts
segments        settled records and interactions as Parquet, with the change-log offsets they cover
segment_files   how segments are read, written and committed
tables          their columns
compaction      which to merge, and what is left of them
settled         what a recommender starts from
queries         the query log, by day
snapshots       what was trained, one folder a version
"""
