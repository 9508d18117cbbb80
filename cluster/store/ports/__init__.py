"""The protocol of each store and its messages, one file for each noun; `stores` holds all ports of a process.

Logic, API replicas and hosts import only these protocols of Redis.
"""
