"""Exports of users, products, interactions and the logs of an app as files and frames.

columns     the columns of each noun, and stored records to tables
export_source  segments, the rest of the change log and the logs as one stream of tables without duplicates
file_export    writes the stream into one file and checks for erasures
driver      exports for Python programs, as a file or a polars frame
"""
