"""Archives of articles: dumps, feeds and tables into an app, and the passages they are searched by.

story       one article as every file reader returns it, and the product record it becomes
mediawiki   dumps of a wiki, page by page
feeds       RSS and Atom
tables      rows of JSON Lines, CSV and Parquet
reading     which file is which; rows for the ingest
passages    the passage snapshot of an app, from what is settled and what the log holds
driver      all of it in a running installation
"""
