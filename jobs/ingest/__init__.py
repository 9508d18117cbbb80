"""Bulk ingest: files of millions through the same steps the intake uses."""
