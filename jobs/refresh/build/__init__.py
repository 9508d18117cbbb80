"""Training and writing of a snapshot from a settled recipe.

fit    trains each component, and the weights of products without events
build  indexes the products, writes the snapshot folder atomically and validates it
"""
