"""Bulk work: ingest, training, export, batch scoring, imports and sample data.

Every job is `python -m jobs.<name>` or `kiosk <verb>`. The steps are plain functions, and only `driver.py` uses Ray.
Jobs write into the stores, and actors follow the stores. No job calls an API replica, and no actor calls a job.
"""
