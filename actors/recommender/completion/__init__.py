"""What somebody may mean who is typing: texts of products, and searches of others.

completing    THE COMPLETION: admitted, looked up, in the order of typos, popularity, taste and boosts
completions   the indexes of one app, by field
field_texts   one field: an index of what was there, and what came since; `field_values` what a product has
built         such an index laid over rows; `saved_texts` in a snapshot
asked         what readers searched for, counted by reader; `logged_queries`: the same from the query log
"""
