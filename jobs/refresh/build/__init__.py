"""Training and writing of a snapshot from a settled recipe.

fit               trains each component, and the weights of products without events
snapshot_indexes  indexes the products for search and autocomplete
model_snapshot    writes the snapshot folder atomically
"""
