"""The former place of `jobs.ingest.upload`; it goes with the next release."""
