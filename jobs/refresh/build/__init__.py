"""Training and writing of a snapshot from a settled recipe.

fit              trains each component
content_weights  trains the weights of products without events
product_indexes  indexes the products for search and autocomplete
build            writes the snapshot folder atomically and validates it
"""
