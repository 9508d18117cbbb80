"""Bulk ingest: large files, with the same validation and intake as the API replicas.

files/      files, directories and buckets as rows: JSON Lines, CSV, TSV, Parquet
mappings/   columns to fields: rules, proposals, dates, rows of one order to one interaction
upload/     the import of an uploaded file: lease, progress in the store, requests to stop
plain_interactions  the most frequent form of interactions, validated in a tenth of the time,
            from rows or from columns
validation  validation of rows, as in the API; an invalid row affects no other row
writing     validated chunks into the stores, each interaction exactly once
progress    progress on disk; rejected rows with their reasons
pipeline    the whole ingest in one process
preview     a dry run: the records of the first rows, and the reasons of rejected ones
driver      many files at once on Ray
display     progress display and summary
cli         arguments of the command; fields lists the fields of a record
"""
