"""What each store promises: protocols and their messages, one file a noun; `stores` holds all ports of a process.

Logic, API replicas and hosts import these protocols and nothing else of Redis.
"""
