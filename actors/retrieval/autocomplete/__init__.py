"""Autocomplete: the texts of a product field that the user may be typing.

lookup            CompletionIndex: exact prefixes, then near ones, then words in any order
folded_texts      the texts of one field as one array of characters; `Matrix, The` is `The Matrix`
prefix_index      every word start in alphabetical order: exact prefixes, the most popular first
ngram_index       texts that share pairs and triples of characters with what was typed
word_index        the words of all texts: several words in any order, each with its own typos
completed_values  the values of a field of a product, and their fingerprint
text_index        an index of texts with the products that have them, bound to rows
field_index       the texts of one field, kept up to date
field_indexes     the indexes of all fields of an app, by language and access
row_access        which access the product of each row needs
snapshot_format   the completions of a snapshot, as named arrays
highlighting      typed and other characters of a completion, escaped for HTML
"""
