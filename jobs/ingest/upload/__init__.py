"""The import of an uploaded file: the ingest under a lease, and the program that API replicas start for it."""
