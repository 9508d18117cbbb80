"""Completions: which texts could somebody mean who typed this.

moved_articles  titles as people type them: `Matrix, The` is `The Matrix`
texts       the texts of one field as one array of characters
prefixes    every word start in alphabetical order: exact beginnings, the most popular first
grams       which texts share pairs and triples of characters with what was typed
words       the words of all texts: several words in any order, each with typos of its own
lookup      THE LOOK-UP: exact beginnings, then near ones, then words; one order
build       all of it from a list of texts
originals   the texts as they were uploaded, in one run of bytes
saved       an index as named arrays and back, for snapshots
markup      what was typed and what was not, escaped for HTML
"""
