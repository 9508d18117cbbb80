"""Bulk work: ingest, refresh, upkeep, sample data.

Every job is `python -m jobs.<name>` or `kiosk <verb>`; the steps are plain functions and only `driver.py`
knows Ray. Jobs write, actors follow; no job calls an API replica and no actor calls a job.
"""
