"""Hold the state of an app's engines: products, interactions, counts, and the snapshot that each engine
serves.
"""
