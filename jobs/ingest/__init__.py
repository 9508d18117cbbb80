"""Bulk ingest: files of millions through the same validation and the same steps the doors and the intake use.

sources     files, directories and buckets as rows (JSON Lines, CSV, Parquet)
row         one row, or why there is none
delimited   CSV and TSV to rows
columns     columns of Parquet to rows, for whoever needs rows
mapping     columns to fields
plain       the commonest form of interactions, checked in a tenth of the time
plain_columns  the same straight from columns, without rows
chunks      rows checked as the door checks them; a bad row costs only itself
writing     checked chunks into the stores, repeating nothing that counts
progress    how far it is, on disk; refused rows with their reasons
pipeline    `ingest`: all of it in one process
driver      many files at once on Ray
display     for the eye
arguments   what the command understands
"""
