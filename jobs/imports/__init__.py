"""Imports of files that were uploaded in the console or by /v1/admin; an import is an ingest."""
