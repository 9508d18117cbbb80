"""Import of article archives: dumps, feeds and tables into an app, and its passage snapshot.

source_article  one article as every file reader returns it, and the product record it becomes
mediawiki   dumps of a wiki, page by page
feeds       RSS and Atom
tables      rows of JSON Lines, CSV and Parquet
article_files  detection of file kinds; rows for the ingest
passages    the passage snapshot of an app, from segments and change log
driver      the whole import into a running installation
"""
