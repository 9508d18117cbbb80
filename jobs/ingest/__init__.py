"""Bulk ingest: large files, with the same validation and intake as the API replicas.

sources     files, directories and buckets as rows (JSON Lines, CSV, Parquet)
row         one row, or why there is none; counts of rejected rows by reason
delimited_files  CSV and TSV to rows
columns     columns of Parquet to rows
mapping     columns to fields
mapping_rules  the text of rules, and the conversion of values
record_fields  fields of a noun, and the closest name to a mistyped one
dates       dates as people write them
row_baskets  rows of one order to one interaction
plain_interactions  the most frequent form of interactions, validated in a tenth of the time,
            from rows or from columns
validation  validation of rows, as in the API; an invalid row affects no other row
writing     validated chunks into the stores, each interaction exactly once
progress    progress on disk; rejected rows with their reasons
pipeline    the whole ingest in one process
column_proposal  columns of a file, and the fields that they probably are
upload_ingest    the import of an uploaded file: lease, progress in the store, requests to stop
driver      many files at once on Ray
display     progress display and summary
cli         arguments of the command
"""
