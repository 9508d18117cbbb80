"""Data out: users, products, interactions and the query log of an app as files and frames.

columns     the columns of each noun, and stored records to tables
tail        the change log behind the settled segments
reading     segments, tail and query log as one stream of tables, nothing twice
exporting   `export`: the stream into one file, checked against erasures
driver      the same from Python, as a polars frame
"""
