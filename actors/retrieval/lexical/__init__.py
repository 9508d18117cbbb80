"""The lexical index: BM25 for products and passages, spelling correction and the blend with vector search.

bm25                the formulas: idf, length norm, term-frequency saturation
postings            which texts have a term: the arrays that both indexes share
text_query          messages: TextQuery, TextHits
search_index        the product index: put, remove, find
product_fields      the fields of a product that are searched, and their weights
product_terms       a product as terms, with its translations
product_postings    postings of products, with counts and fields; build and merge
index_segments      the segments of the product index, and which one owns a product
query_terms         a query as words and terms
term_matcher        products that match a query, and their scores
spell_correction    corrections of words that no product has
spell_dictionary    the words of all products, and which are near a word
hybrid_ranking      scores of words and of vectors in one ranking
snapshot_format     the product index in a snapshot
term_counts         how often each passage has each term
passage_postings    postings of passages in 255 levels; the exact best passages of a query
"""
