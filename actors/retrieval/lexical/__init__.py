"""Products found by words: BM25 over weighted fields, with typos corrected and, when asked, by meaning too.

found       what is asked and what is found
index       THE INDEX: put, remove, find
fields      which texts of a product are searched, and what they weigh
reading     a product cut into terms, its translations too
postings    which products have a term: flat arrays, sealed, merged
parts       which arrays speak for a product that changed
asking      a question cut into words and terms
matching    which products have the words, and what they score
correcting  words that occur nowhere: typos, unfinished words, words in two or in one
spelling    the words of all products and which are near
blend       words and meaning together
saved       the index in a snapshot, mapped back
"""
