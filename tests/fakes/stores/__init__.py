"""The ports in dictionaries: the twin of the Redis modules, held to the same suites. Put together by `memory`.

state          what one app holds; a log of entries; a bell for those who wait
records        records and tasks, read
intake         accepted batches, applied
interactions   recent lists and links
changes        change logs
small          access, engines and their watch, limits, idempotency, shown products, leases
"""
