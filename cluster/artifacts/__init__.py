"""What stands on the shelf and in which form.

shelf      open, write-then-rename, list, retire; a local directory or an object store (pyarrow.fs)
segments   settled records and interactions as Parquet, with the change-log offset they cover
manifest   what a trained snapshot says of itself
"""
